"""Reference costs: what HGS, LKH-3 or OR-Tools find for instances, each solved only once."""

import os

from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.evaluation.cache import Cache
from rl4co_prompt.evaluation.lkh import LKH3
from rl4co_prompt.evaluation.problem import fault
from rl4co_prompt.evaluation.programs import Programs
from rl4co_prompt.evaluation.solvers import HGS, ORTools, ReferenceSolver, Timed
from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.inference.progress import ProgressBar
from rl4co_prompt.tasks.instance import Instance

__all__ = [
    "HGS",
    "LKH3",
    "Cache",
    "ORTools",
    "Reference",
    "ReferenceCosts",
    "reference_costs",
    "reference_solver",
]

SOLVERS = ("hgs", "lkh3", "ortools")
GLANCE = 0.2  # seconds between looks at the clock


@dataclass(frozen=True)
class Reference:
    """What a solver found for an instance.

    Args:
        cost: of the routes, by the instance's own rounding.
        routes: of customers 1 to n.
        seconds: that the search took.
        solver: its name.
    """

    cost: float
    routes: list[list[int]]
    seconds: float
    solver: str


class TimedSolver(Protocol):
    """What :func:`reference_costs` asks of a solver."""

    @property
    def name(self) -> str: ...

    def key(self, instance: Instance) -> str: ...

    def timed(self, instance: Instance) -> Timed: ...


def reference_solver(
    name: str,
    seconds: float | None = None,
    binary: str | Path | None = None,
    extra_vehicles: bool = False,
) -> ReferenceSolver:
    """A reference solver by name.

    Args:
        name: ``hgs``, ``lkh3`` or ``ortools``.
        seconds: time limit; the paper's by default.
        binary: LKH-3's program.
        extra_vehicles: let LKH-3 use more vehicles than the demand needs.
    """
    if name not in SOLVERS:
        raise ValueError(f"Unknown reference solver {name!r}; use one of {', '.join(SOLVERS)}.")
    if name == "lkh3":
        return LKH3(binary, seconds, extra_vehicles=extra_vehicles)
    return HGS(seconds) if name == "hgs" else ORTools(seconds)


def reference_costs(
    instances: Sequence[Instance],
    solver: TimedSolver,
    cache: Cache | None = None,
    jobs: int = 1,
    progress: bool = True,
    failed: dict[str, str] | None = None,
) -> list[Reference]:
    """References for instances, in their order.

    Args:
        instances: equal ones are solved once.
        solver: such as :class:`HGS`.
        cache: where results are looked up and kept, each as soon as it is there; None keeps none.
        jobs: instances under way at a time; more than there are cores takes time from each.
        progress: show a progress bar after a second.
        failed: takes why, by digest, of instances that the solver fails on, which are then left
            out of the list; None raises.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    problems = {(instance.digest, solver.key(instance)): instance for instance in instances}
    found: dict[tuple[str, str], Timed] = {}
    for mark, instance in problems.items():
        known = None if cache is None else cache.find(instance, mark[1])
        if known is not None:
            found[mark] = known
    missing = {mark: instance for mark, instance in problems.items() if mark not in found}
    found |= _solve_all(missing, solver, cache, jobs, progress, failed)
    references = []
    for instance in instances:
        if failed and instance.digest in failed:
            continue
        routes, seconds = found[instance.digest, solver.key(instance)]
        references.append(Reference(instance.cost(routes), routes, seconds, solver.name))
    return references


def _solve_all(
    missing: dict[tuple[str, str], Instance],
    solver: TimedSolver,
    cache: Cache | None,
    jobs: int,
    progress: bool,
    failed: dict[str, str] | None,
) -> dict[tuple[str, str], Timed]:
    programs = Programs()
    pool = ThreadPoolExecutor(jobs, initializer=programs.adopt)
    waiting = deque(missing.items())
    running: dict[Future[Timed], tuple[str, str]] = {}
    found: dict[tuple[str, str], Timed] = {}
    try:
        with ProgressBar(progress, solver.name) as bar:
            bar.total = len(missing)
            while waiting or running:
                # None is handed out ahead: after a failure nothing new may begin.
                while waiting and len(running) < jobs:
                    mark, instance = waiting.popleft()
                    running[pool.submit(_solve, instance, solver, cache)] = mark
                done, _ = wait(running, GLANCE, FIRST_COMPLETED)
                for future in done:
                    mark = running.pop(future)
                    try:
                        found[mark] = future.result()
                    except RuntimeError as error:
                        if failed is None:
                            raise
                        failed[mark[0]] = str(error)
                bar.advance(len(done), [])
    finally:
        programs.stop()
        pool.shutdown(wait=False)
    return found


def _solve(instance: Instance, solver: TimedSolver, cache: Cache | None) -> Timed:
    routes, seconds = solver.timed(instance)
    wrong = fault(instance, routes)
    if wrong is not None:
        raise RuntimeError(f"{instance.name}: the routes of {solver.name} are wrong: {wrong}.")
    if cache is not None:
        cache.store(instance, solver.key(instance), routes, seconds)
    return routes, seconds


class ReferenceCosts:
    """A reference solver as a function of instances, for training that weighs tasks by gaps.

    Args:
        name: ``hgs``, ``lkh3`` or ``ortools``.
        seconds: per instance; the paper's by default.
        jobs: instances at a time; one for each core by default.
        binary: of LKH-3.
    """

    def __init__(
        self,
        name: str = "hgs",
        seconds: float | None = None,
        jobs: int | None = None,
        binary: str | Path | None = None,
    ):
        self.solver = reference_solver(name, seconds, binary)
        self.jobs = jobs if jobs is not None else os.cpu_count() or 1

    def __call__(self, td: TensorDict) -> Tensor:
        found = reference_costs(read_instances(td), self.solver, Cache(), self.jobs, progress=False)
        return torch.tensor([reference.cost for reference in found])
