"""Vectors of float32 lanes for numba functions; LLVM maps them to what the processor has.

A tuple stands for a number of lanes that is known at compile time: ``(0,) * 8`` for eight.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
# Minimax polynomial of 2^r on |r| <= 1/2, highest power first; relative error 2e-9.
_POWER = (
    1.535335909e-04,
    1.339887542e-03,
    9.618437377e-03,
    5.550332468e-02,
    2.402264791e-01,
    6.931472029e-01,
    1.0,
)
_LEAST, _MOST = -126.0, 126.0  # exponents of normal numbers


class Vector(types.Type):
    """A numba value of ``lanes`` float32 numbers."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        super().__init__(name=f"Vector({lanes})")


@register_default(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector):
        super().__init__(manager, kind, _floats(kind.lanes))


def _floats(lanes: int) -> Any:
    return ir.VectorType(_FLOAT, lanes)


def _constant(lanes: int, value: float, element: Any = _FLOAT) -> Any:
    return ir.Constant(ir.VectorType(element, lanes), [value] * lanes)


def _lanes(first: Any, second: Any, chosen: list[int], builder: Any) -> Any:
    """The chosen lanes of two vectors, one after the other."""
    index = ir.Constant(ir.VectorType(_INT, len(chosen)), chosen)
    return builder.shuffle_vector(first, second, index)


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    """A vector function of LLVM, same type in and out."""
    kind = arguments[0].type
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    name = f"llvm.{name}.v{kind.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), arguments)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any, lanes: int) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    where = builder.gep(data, [index], inbounds=True)
    return builder.bitcast(where, _floats(lanes).as_pointer())


@intrinsic
def load(typing, array, index, lanes):
    """The numbers of a flat array from ``index`` on."""

    def generate(context, builder, signature, arguments):
        where = _pointer(context, builder, array, arguments[0], arguments[1], lanes.count)
        return builder.load(where, align=4)

    return Vector(lanes.count)(array, types.intp, lanes), generate


@intrinsic
def store(typing, array, index, vector):
    """Write a vector to a flat array from ``index`` on."""

    def generate(context, builder, signature, arguments):
        where = _pointer(context, builder, array, arguments[0], arguments[1], vector.lanes)
        builder.store(arguments[2], where, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def fill(typing, number, lanes):
    """A vector of one number."""

    def generate(context, builder, signature, arguments):
        empty = ir.Constant(_floats(lanes.count), ir.Undefined)
        one = builder.insert_element(empty, arguments[0], _INT(0))
        return _lanes(one, empty, [0] * lanes.count, builder)

    return Vector(lanes.count)(types.float32, lanes), generate


@intrinsic
def fma(typing, a, b, c):
    """a * b + c"""

    def generate(context, builder, signature, arguments):
        return _call(builder, "fmuladd", *arguments)

    return a(a, b, c), generate


def _lanewise(emit: Any) -> Any:
    @intrinsic
    def operation(typing, a, b):
        def generate(context, builder, signature, arguments):
            return emit(builder, *arguments)

        return a(a, b), generate

    return operation


add = _lanewise(lambda builder, a, b: builder.fadd(a, b))
subtract = _lanewise(lambda builder, a, b: builder.fsub(a, b))
multiply = _lanewise(lambda builder, a, b: builder.fmul(a, b))
divide = _lanewise(lambda builder, a, b: builder.fdiv(a, b))
maximum = _lanewise(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def power_of_two(typing, a):
    """2^a, with a held to [-126, 126]; NaN stays NaN."""

    def generate(context, builder, signature, arguments):
        x, lanes = arguments[0], a.lanes
        least, most = _constant(lanes, _LEAST), _constant(lanes, _MOST)
        x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
        x = builder.select(builder.fcmp_ordered(">", x, most), most, x)
        whole = _call(builder, "nearbyint", x)
        rest = builder.fsub(x, whole)
        power = _constant(lanes, _POWER[0])
        for coefficient in _POWER[1:]:
            power = _call(builder, "fmuladd", power, rest, _constant(lanes, coefficient))
        integers = ir.VectorType(_INT, lanes)
        shift = _constant(lanes, 23, _INT)
        exponent = builder.shl(builder.fptosi(whole, integers), shift)
        return builder.bitcast(builder.add(builder.bitcast(power, integers), exponent), x.type)

    return a(a), generate


def _reduced(emit: Any) -> Any:
    """A function that joins the lanes of a vector by halves."""

    @intrinsic
    def reduction(typing, a):
        def generate(context, builder, signature, arguments):
            x, lanes = arguments[0], a.lanes
            while lanes > 1 and lanes % 2 == 0:
                lanes //= 2
                low, high = range(lanes), range(lanes, 2 * lanes)
                x = emit(builder, _lanes(x, x, [*low], builder), _lanes(x, x, [*high], builder))
            out = builder.extract_element(x, _INT(0))
            for lane in range(1, lanes):
                out = emit(builder, out, builder.extract_element(x, _INT(lane)))
            return out

        return types.float32(a), generate

    return reduction


total = _reduced(lambda builder, a, b: builder.fadd(a, b))
largest = _reduced(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def store_totals(typing, array, index, a, b, c, d):
    """Write the lane sums of four vectors to a flat array from ``index`` on."""

    def generate(context, builder, signature, arguments):
        lanes = a.lanes
        both, all_four = [*range(2 * lanes)], [*range(4 * lanes)]
        ab = _lanes(arguments[2], arguments[3], both, builder)
        cd = _lanes(arguments[4], arguments[5], both, builder)
        x = _lanes(ab, cd, all_four, builder)
        while lanes > 1 and lanes % 2 == 0:
            half = lanes // 2
            low = [g * lanes + i for g in range(4) for i in range(half)]
            high = [lane + half for lane in low]
            x = builder.fadd(_lanes(x, x, low, builder), _lanes(x, x, high, builder))
            lanes = half
        out = _lanes(x, x, [g * lanes for g in range(4)], builder)
        for lane in range(1, lanes):
            other = _lanes(x, x, [g * lanes + lane for g in range(4)], builder)
            out = builder.fadd(out, other)
        where = _pointer(context, builder, array, arguments[0], arguments[1], 4)
        builder.store(out, where, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, a, b, c, d), generate
