"""Instance: one CVRP instance in its own units, and what its routes cost there."""

import hashlib
import math
import re

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch

from tensordict import TensorDict

Routes = Sequence[Sequence[int]]

LARGEST = 1e12  # coordinate or capacity; squares still have room
FINE, FEW = 2**14, 300  # up to this capacity and this many a route, float32 counts units right
GRID = 2**20  # multiples of 1 / GRID add up exactly in float32
SLACK = 10  # of them that RL4CO, with its 1e-5, lets a vehicle carry beyond the capacity
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)

_ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda length: length,
    "nearest": lambda length: np.floor(length + 0.5),
    "up": np.ceil,
    "down": np.floor,
}


@dataclass(frozen=True, eq=False)
class Instance:
    """A depot, customers with demands, and vehicles of one capacity.

    Customers are numbered 1 to n; 0 is the depot.

    Args:
        coordinates: [n + 1, 2], the depot first.
        demand: [n], whole or decimal numbers.
        capacity: of a vehicle, in the same unit.
        name: shown in tables, and the name of its files.
        rounding: of every edge's length: ``none``, ``nearest`` (TSPLIB's EUC_2D), ``up`` or
            ``down``.
        reference: best cost known, with the same rounding.
        source: of the reference.
        reference_routes: that have this cost, where they are known.
        max_routes: number of vehicles, where the file limits it.
    """

    coordinates: np.ndarray
    demand: np.ndarray
    capacity: float
    name: str = "instance"
    rounding: str = "none"
    reference: float | None = None
    source: str = ""
    reference_routes: Routes | None = None
    max_routes: int | None = None

    def __post_init__(self) -> None:
        if self.rounding not in _ROUNDINGS:
            raise ValueError(
                f"Unknown rounding {self.rounding!r}; use one of {', '.join(_ROUNDINGS)}."
            )
        xy = _numbers(self.coordinates, self.name, "coordinates")
        demand = _numbers(self.demand, self.name, "demand")
        if demand.ndim != 1 or xy.shape != (len(demand) + 1, 2):
            raise ValueError(
                f"{self.name}: coordinates must be [n + 1, 2], depot first, and demand [n]; got "
                f"{list(xy.shape)} and {list(demand.shape)}."
            )
        stated = _numbers(self.capacity, self.name, "capacity")
        if stated.size != 1:
            raise ValueError(f"{self.name}: the capacity must be one number, got {stated.size}.")
        capacity = stated.item()
        _check(self.name, xy, demand, capacity)
        reference = _optional(self.reference, self.name, "reference")
        fleet = _optional(self.max_routes, self.name, "max_routes")
        if fleet is not None and not fleet.is_integer():
            raise ValueError(f"{self.name}: max_routes must be a whole number, got {fleet:g}.")
        object.__setattr__(self, "coordinates", xy + 0.0)  # no -0
        object.__setattr__(self, "demand", demand)
        object.__setattr__(self, "capacity", capacity)
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "max_routes", None if fleet is None else int(fleet))

    @property
    def num_customers(self) -> int:
        return len(self.demand)

    @cached_property
    def whole(self) -> tuple[list[int], int]:
        """Demands and capacity as integers, in the largest unit that makes them whole."""
        numbers = [*self.demand.tolist(), self.capacity]
        if all(x.is_integer() for x in numbers):
            whole = [int(x) for x in numbers]
        else:
            exact = [Fraction(repr(x)) for x in numbers]
            unit = math.lcm(*(x.denominator for x in exact))
            whole = [int(x * unit) for x in exact]
        common = math.gcd(*whole)
        *demand, capacity = (x // common for x in whole)
        return demand, capacity

    @cached_property
    def digest(self) -> str:
        """Names the problem: all that decides what routes are allowed and what they cost."""
        hashed = hashlib.sha256(repr((self.whole, self.rounding, self.max_routes)).encode())
        hashed.update(np.ascontiguousarray(self.coordinates, "<f8").tobytes())
        return hashed.hexdigest()[:32]

    @property
    def counts_exactly(self) -> bool:
        """Whether the sums of :meth:`shares` tell every overload."""
        demand, capacity = self.whole
        return capacity <= FINE and min(len(demand), capacity) <= FEW

    def shares(self) -> np.ndarray:
        """Demand by capacity, float32, such that RL4CO allows every load within the capacity.

        Beyond what float32 can tell apart it also allows loads that are a little above.
        """
        demand, capacity = self.whole
        if self.counts_exactly:
            return np.array([d / capacity for d in demand], np.float32)
        most = min(len(demand), capacity)  # customers with a demand that fit one vehicle
        up = min(SLACK * capacity // most, capacity // 2)  # all roundings up fit the slack
        return np.array([(d * GRID + up) // capacity / GRID for d in demand], np.float32)

    def exact_cost(self, routes: Routes) -> float:
        """Length of the routes, unrounded."""
        return float(sum(self.tour_costs(_as_tour(route)[None], "none")[0] for route in routes))

    def rounded_cost(self, routes: Routes) -> int:
        """Cost as CVRPLIB takes it: every edge rounded, to the nearest integer unless told."""
        rounding = "nearest" if self.rounding == "none" else self.rounding
        return int(sum(self.tour_costs(_as_tour(route)[None], rounding)[0] for route in routes))

    def cost(self, routes: Routes) -> float:
        """Cost by the instance's own rounding."""
        return self.exact_cost(routes) if self.rounding == "none" else self.rounded_cost(routes)

    def tour_costs(self, tours: np.ndarray, rounding: str | None = None) -> np.ndarray:
        """[tour, step] nodes from the depot on, its visits as 0; the way back is added -> [tour]"""
        return self.edge_costs(tours, np.roll(tours, -1, axis=1), rounding).sum(-1)

    def edge_costs(
        self, begin: np.ndarray | int, end: np.ndarray | int, rounding: str | None = None
    ) -> np.ndarray:
        """Cost of going from nodes to nodes, by the instance's own rounding unless told."""
        way = self.coordinates[begin] - self.coordinates[end]
        length = np.hypot(way[..., 0], way[..., 1])
        return _ROUNDINGS[self.rounding if rounding is None else rounding](length)

    def violation(self, routes: Routes) -> str | None:
        """What is wrong with routes, counted on the original numbers; None if they are feasible."""
        visits = sorted(customer for route in routes for customer in route)
        if visits != list(range(1, self.num_customers + 1)):
            return f"the routes do not visit each of the customers 1 to {self.num_customers} once"
        demand, capacity = self.whole
        for number, route in enumerate(routes, 1):
            load = sum(demand[customer - 1] for customer in route)
            if load > capacity:
                unit = self.capacity / capacity
                return f"route {number} carries {load * unit:.15g} of {self.capacity:.15g}"
        return None


def as_tensordict(instances: Sequence[Instance], scaling: str = "fit") -> TensorDict:
    """Instances of one size as the model wants them: the unit square, shares of the capacity."""
    xy = np.stack([unit_square(i.coordinates, scaling) for i in instances]).astype(np.float32)
    return TensorDict(
        {
            "depot": torch.from_numpy(xy[:, 0]),
            "locs": torch.from_numpy(xy[:, 1:]),
            "demand": torch.from_numpy(np.stack([i.shares() for i in instances])),
            "capacity": torch.tensor([[float(i.capacity)] for i in instances]),
        },
        batch_size=[len(instances)],
    )


def unit_square(xy: np.ndarray, scaling: str = "fit") -> np.ndarray:
    """Coordinates for the model.

    Args:
        scaling: ``fit`` moves the points to the origin and divides both axes by the larger range;
            points that lie in the unit square and span a quarter of it stay. ``x-range`` is the
            authors' code: both axes move and shrink as x does. ``thousand`` divides by 1000.
    """
    low, high = xy.min(0), xy.max(0)
    span = float((high - low).max())
    if scaling == "fit":
        if low.min() >= 0 and high.max() <= 1 + 1e-6 and span >= 0.25:
            return xy
        return (xy - low) / (span or 1.0)
    if scaling == "x-range":
        return (xy - low[0]) / (float(high[0] - low[0]) or 1.0)
    if scaling == "thousand":
        return xy / 1000
    raise ValueError(f"Unknown scaling {scaling!r}; use fit, x-range or thousand.")


def _as_tour(route: Sequence[int]) -> np.ndarray:
    return np.array([0, *route], dtype=np.int64)


def _numbers(values: object, name: str, field: str) -> np.ndarray:
    """As float64; float32 numbers keep the digits they print with."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "f" and array.itemsize < 8:
            array = array.astype(str)
        if array.dtype.kind in "USO":  # Python reads more as numbers than people do
            array = np.array([_as_float(x) for x in array.ravel()]).reshape(array.shape)
        if array.dtype.kind not in "biuf":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: {field} must be numbers.") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: {field} has a NaN or infinite value.")
    return array


def _optional(value: object, name: str, field: str) -> float | None:
    """A positive number, or None for none."""
    if value is None:
        return None
    numbers = _numbers(value, name, field)
    if numbers.size != 1 or not numbers.item() > 0:
        raise ValueError(f"{name}: {field} must be a positive number, got {value}.")
    return numbers.item()


def as_number(word: str) -> float | None:
    """A plain decimal number; None for anything else."""
    if len(word) > 100 or not _NUMBER.fullmatch(word):
        return None
    value = float(word)
    lost = math.isinf(value) or (value == 0 and Fraction(word) != 0)
    return None if lost else value


def _as_float(x: object) -> float:
    if not isinstance(x, str):
        return math.nan if x is None else float(x)  # type: ignore[arg-type]
    if x.strip().lower() in ("nan", "inf", "-inf"):
        return float(x)
    value = as_number(x.strip())
    if value is None:
        raise ValueError
    return value


def _check(name: str, xy: np.ndarray, demand: np.ndarray, capacity: float) -> None:
    if len(demand) == 0:
        raise ValueError(f"{name} has no customers; give at least one.")
    if np.abs(xy).max() > LARGEST:
        raise ValueError(f"{name}: a coordinate is beyond {LARGEST:.0e}; use a larger unit.")
    if capacity <= 0 or capacity > LARGEST:
        raise ValueError(f"{name}: the capacity must be between 0 and {LARGEST:.0e}: {capacity:g}.")
    if demand.min() < 0:
        raise ValueError(
            f"{name}: customer {int(demand.argmin()) + 1} has the negative demand {demand.min():g}."
        )
    if demand.max() > capacity:
        raise ValueError(
            f"{name}: customer {int(demand.argmax()) + 1} demands {demand.max():g}, above the "
            f"capacity of {capacity:g}; split it."
        )
