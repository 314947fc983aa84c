"""Suites: named sets of test instances, from files where they are at hand, else generated."""

import math
import warnings
import zlib

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rl4co_prompt.inference.inputs import LeftOut, read_instances
from rl4co_prompt.tasks.data import VARIABLE, outside_data
from rl4co_prompt.tasks.generator import TaskGenerator
from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.task import Task

TEST_SEED = 2023
_SOLUTIONS = {
    ".sol": "the .sol beside each file",
    ".sol, unrounded": "the routes of the .sol beside each file, unrounded",
}
_BLOCK = 50  # instances drawn at a time, so that the first ones do not depend on the count
FULL = 1_000  # instances of a generated set, as in the paper
TOLD = 5  # instances whose reason to be left out a warning tells

_UNSEEN = {
    "cluster": ("CL", "amdkd_test_cluster{}_0-499"),
    "expansion": ("EA", "amdkd_testsub_expansion{}_0-499"),
    "explosion": ("EO", "amdkd_testsub_explosion{}_0-499"),
    "implosion": ("IM", "amdkd_testsub_implosion{}_0-499"),
    "grid": ("GR", "amdkd_testsub_grid{}_0-499"),
    "mixed": ("MX", "amdkd_test_mixed{}_0-499"),
}
_UNIFORM = {
    50: "uniform/mvmoe_cvrp50_uniform_0-499.npz",
    100: "uniform/mvmoe_cvrp100_uniform_0-499.npz",
    200: "omni/omni_cvrp200_uniform_0-499.npz",
}


@dataclass(frozen=True)
class Origin:
    """Where a set comes from.

    Args:
        label: its column in tables.
        file: below the folder of outside data, a .npz file or a folder of .vrp files.
        task: to generate the set from where there is no file; None if it can't be.
        below: take only instances with fewer customers; None for all.
    """

    label: str
    file: str
    task: str | None = None
    below: int | None = None


ORIGINS: dict[str, Origin] = {
    **{f"uniform-{n}": Origin(f"{n} U", file, f"{n}-uniform") for n, file in _UNIFORM.items()},
    **{
        f"{size}-{name}": Origin(
            f"{size} {label}", f"zero_shot/{file.format(size)}.npz", f"{size}-{name}"
        )
        for size in (50, 100)
        for name, (label, file) in _UNSEEN.items()
    },
    **{name: Origin(name, f"cvrplib/{name}") for name in ("A", "B", "P")},
    "X": Origin("X", "cvrplib/X", below=200),  # as in the paper
    "XML": Origin("XML", "cvrplib/XML100"),
}

SUITES: dict[str, tuple[str, ...]] = {
    "uniform": tuple(f"uniform-{size}" for size in _UNIFORM),
    "zero-shot": tuple(f"{size}-{name}" for size in (50, 100) for name in _UNSEEN),
    "cvrplib": ("A", "B", "P", "X", "XML"),
}


@dataclass(frozen=True)
class InstanceSet:
    """Instances of one column of a table.

    Args:
        source: the file they are from, or the seed they were generated with.
        left_out: instances that could not be used, and why.
    """

    name: str
    label: str
    instances: tuple[Instance, ...]
    source: str
    left_out: tuple[LeftOut, ...] = ()

    @property
    def reference_source(self) -> str:
        """Where the best-known costs are from, one for all or the kinds of several."""
        if len(self.instances) == 1:
            return self.instances[0].source or "none"
        return ", ".join(sorted({_kind(instance) for instance in self.instances}))


def _kind(instance: Instance) -> str:
    """The source of a reference, the same for all files of a folder."""
    source = instance.source or "none"
    return next((kind for ending, kind in _SOLUTIONS.items() if source.endswith(ending)), source)


def load_suites(
    names: Iterable[str], limit: int | None = None, seed: int = TEST_SEED
) -> list[InstanceSet]:
    """The sets of several suites, see ``load_suite``; none twice."""
    sets = [one for name in names for one in load_suite(name, limit, seed)]
    doubled = [name for name, count in Counter(one.name for one in sets).items() if count > 1]
    if doubled:
        raise ValueError(f"The set {', '.join(doubled)} is named twice.")
    return sets


def load_suite(name: str, limit: int | None = None, seed: int = TEST_SEED) -> list[InstanceSet]:
    """The sets of a suite, of a single set, of a task such as ``80-cluster``, or of a path.

    Args:
        limit: take the first so many instances of each set.
        seed: of sets that are generated.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}.")
    if name in SUITES:
        return [_load(part, limit, seed) for part in SUITES[name]]
    if name in ORIGINS:
        return [_load(name, limit, seed)]
    if Path(name).exists():
        return [_from_path(Path(name), limit)]
    try:
        task = Task.from_name(name)
    except ValueError as error:
        if name[:1].isdigit() and "-" in name:  # meant as a task
            raise ValueError(f"The suite {name} can't be generated: {error}") from None
        known = ", ".join([*SUITES, *ORIGINS])
        raise ValueError(
            f"Unknown suite {name!r}; give one of {known}, a task such as 80-cluster, a folder of "
            ".vrp files or an .npz file."
        ) from None
    return [generated_set(task.name, task, limit or FULL, seed)]


def _load(name: str, limit: int | None, seed: int) -> InstanceSet:
    origin = ORIGINS[name]
    path = outside_data(origin.file)
    if path is not None:
        found = replace(_from_path(path, None), name=name, label=origin.label, source=origin.file)
        chosen = [i for i in found.instances if i.num_customers < (origin.below or math.inf)]
        if not chosen:
            raise ValueError(f"No instance in {path} has fewer than {origin.below} customers.")
        return replace(found, instances=tuple(chosen[:limit]))
    if origin.task is None:
        raise FileNotFoundError(
            f"The set {name} is not at hand; let {VARIABLE} name a folder with {origin.file}."
        )
    made = generated_set(name, Task.from_name(origin.task), limit or FULL, seed)
    return replace(made, label=origin.label)


def _from_path(path: Path, limit: int | None) -> InstanceSet:
    broken: list[LeftOut] = []
    instances = read_instances(path, left_out=broken)[:limit]
    if not instances:
        raise ValueError(f"No instance of {path} can be used: {broken[0][1]}")
    named = [
        replace(i, source=f"{i.source} of {path.name}") if i.source.endswith("hgs_cost") else i
        for i in instances
    ]
    return _without(InstanceSet(path.stem, path.stem, tuple(named), str(path)), broken)


def generated_set(name: str, task: Task, count: int, seed: int) -> InstanceSet:
    """The first instances of a task for a seed."""
    # The name belongs to the seed: maps drawn from the same numbers would not be independent.
    own = zlib.crc32(f"{seed} {task.name}".encode())
    generator, rng = TaskGenerator(task), torch.Generator().manual_seed(own)
    blocks = [generator(_BLOCK, rng) for _ in range(0, count, _BLOCK)]
    drawn = read_instances(torch.cat(blocks)[:count])
    instances = [replace(instance, name=f"{task.name}-{i}") for i, instance in enumerate(drawn)]
    return InstanceSet(name, name, tuple(instances), f"generated with seed {seed}")


def unrounded(one: InstanceSet) -> InstanceSet:
    """The set in real lengths; references are those of the reference routes, where known."""

    def convert(instance: Instance) -> Instance:
        if instance.rounding == "none":
            return instance
        routes = instance.reference_routes
        plain = replace(instance, rounding="none", reference=None, source="")
        if routes is None:
            return plain
        source = f"routes of {instance.source}, unrounded"
        return replace(plain, reference=plain.cost(routes), source=source)

    return replace(one, instances=tuple(map(convert, one.instances)))


def with_references(
    sets: Sequence[InstanceSet], costs: dict[str, tuple[float, str]]
) -> list[InstanceSet]:
    """The sets with best-known costs and their source, by digest, where instances lack them."""

    def add(instance: Instance) -> Instance:
        if instance.reference is not None or instance.digest not in costs:
            return instance
        cost, source = costs[instance.digest]
        return replace(instance, reference=cost, source=source)

    return [replace(one, instances=tuple(map(add, one.instances))) for one in sets]


def without(one: InstanceSet, failed: Mapping[str, str]) -> InstanceSet:
    """The set without the instances that failed; a warning names them.

    Args:
        failed: why, by digest.
    """
    kept = tuple(i for i in one.instances if i.digest not in failed)
    broken = [(i.name, failed[i.digest]) for i in one.instances if i.digest in failed]
    return _without(replace(one, instances=kept), broken)


def _without(one: InstanceSet, broken: Sequence[LeftOut]) -> InstanceSet:
    for name, why in broken[:TOLD]:
        told = why.removeprefix(f"{name}: ")
        warnings.warn(f"{name} is left out of {one.label}: {told}", stacklevel=3)
    if len(broken) > TOLD:
        names = ", ".join(name for name, _ in broken[TOLD:])
        warnings.warn(f"More is left out of {one.label}: {names}.", stacklevel=3)
    return replace(one, left_out=(*one.left_out, *broken))
