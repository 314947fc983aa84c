"""Reference solvers that come as Python libraries: HGS-CVRP and OR-Tools."""

import io
import json
import math
import sys

from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rl4co_prompt.evaluation.problem import (
    TINY,
    distances,
    fault,
    fleet,
    loads,
    min_routes,
    shortest,
    span,
)
from rl4co_prompt.evaluation.programs import run_program
from rl4co_prompt.tasks.instance import Instance

SIZES = (50, 100)  # customers up to which the first and the second limit hold
Timed = tuple[list[list[int]], float]  # routes, seconds
MARGIN = 60.0  # seconds that a solver may take beyond its limit


class NoRoutes(RuntimeError):
    """A solver ended without a solution."""


class ReferenceSolver(ABC):
    """Finds good routes within a time limit; the paper's by size unless ``seconds`` is given."""

    name: ClassVar[str]
    limits: ClassVar[tuple[float, float, float]] = (5.0, 10.0, 20.0)
    seconds: float | None

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ValueError(f"The time limit must be a positive number, got {self.seconds}.")

    def seconds_for(self, instance: Instance) -> float:
        """The time limit for an instance."""
        if self.seconds is not None:
            return float(self.seconds)
        return self.limits[bisect_left(SIZES, instance.num_customers)]

    def patience_for(self, instance: Instance) -> float:
        """Seconds after which it must be stuck; solvers count CPU time, which they may share."""
        return 10 * self.seconds_for(instance) + MARGIN

    def key(self, instance: Instance) -> str:
        """Names the solver and its settings, not its version."""
        return " ".join([self.name, f"{self.seconds_for(instance)!r} s", *self._settings()])

    def solve(self, instance: Instance) -> list[list[int]]:
        """Routes of customers 1 to n, checked."""
        return self.timed(instance)[0]

    def timed(self, instance: Instance) -> Timed:
        """Checked routes, and the seconds they took; of libraries without starting a process."""
        if instance.max_routes and instance.max_routes < min_routes(instance):
            raise NoRoutes(
                f"{instance.name}: a fleet of {instance.max_routes} can't hold its demand; "
                f"{min_routes(instance)} might."
            )
        # HGS hangs on one customer, and LKH-3 refuses it or writes nothing.
        tiny = instance.num_customers <= TINY
        found, seconds = (shortest(instance), 0.0) if tiny else self._search(instance)
        routes = [route for route in found if route]
        wrong = fault(instance, routes)
        if wrong is not None:
            raise RuntimeError(f"{instance.name}: the routes of {self.name} are wrong: {wrong}.")
        return routes, seconds

    def _settings(self) -> list[str]:
        return []

    @abstractmethod
    def _search(self, instance: Instance) -> Timed: ...


@dataclass(frozen=True)
class HGS(ReferenceSolver):
    """HGS-CVRP (Vidal 2022) with a free fleet, through ``hygese``."""

    name: ClassVar[str] = "hgs"

    seconds: float | None = None
    seed: int = 1

    def _settings(self) -> list[str]:
        return [f"seed {self.seed}"]

    def _search(self, instance: Instance) -> Timed:
        _require("hygese", self.name)
        demand, capacity = loads(instance, 10**9)
        # It refuses demands above 100,000; it counts in floats, so fractions do.
        share = min(1.0, 100_000 / max(demand))
        low, scale = instance.coordinates.min(0), 10_000 / span(instance)
        problem = {
            "coordinates": (instance.coordinates - low) * scale,
            "distances": self._distances(instance, scale),
            "demand": np.array([0, *demand]) * share,
            "capacity": capacity * share,
            "vehicles": min(instance.max_routes or math.inf, instance.num_customers),
            "seed": self.seed,
        }
        return _solve_apart(self, instance, problem)

    def _distances(self, instance: Instance, scale: float) -> np.ndarray:
        cost = distances(instance)
        if not cost.any():  # all routes are equal, but it refuses such maps
            return cost + 1
        if instance.rounding == "none":
            return cost * scale
        # It refuses lengths below 0.1 or above 100,000.
        return cost if cost.max() <= 100_000 else cost * (10_000 / cost.max())


@dataclass(frozen=True)
class ORTools(ReferenceSolver):
    """OR-Tools' routing library: guided local search from the cheapest arcs, on one thread."""

    name: ClassVar[str] = "ortools"

    seconds: float | None = None

    def _search(self, instance: Instance) -> Timed:
        _require("ortools", self.name)
        scale = 100_000 / span(instance) if instance.rounding == "none" else 1.0
        demand, capacity = loads(instance, 2**50)
        problem = {
            "distances": np.rint(distances(instance) * scale).astype(np.int64),
            "demand": np.array([0, *demand]),
            "capacity": capacity,
            "vehicles": fleet(instance),
        }
        try:
            return _solve_apart(self, instance, problem)
        except NoRoutes:
            if instance.max_routes:
                raise
            # The cheapest arcs can strand customers when vehicles are few.
            problem["vehicles"] = instance.num_customers
            return _solve_apart(self, instance, problem)


def _solve_apart(solver: ReferenceSolver, instance: Instance, problem: dict[str, Any]) -> Timed:
    """Solve in a process of its own."""
    seconds = solver.seconds_for(instance)
    program = str(Path(__file__).with_name("library.py"))
    arrays = {key: value for key, value in problem.items() if isinstance(value, np.ndarray)}
    settings = {key: value for key, value in problem.items() if key not in arrays}
    data = io.BytesIO()
    data.write(json.dumps(settings | {"seconds": seconds, "path": sys.path}).encode() + b"\n")
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type]
    data.write(packed.getvalue())
    command = [sys.executable, "-I", program, solver.name]
    outcome = run_program(command, solver.patience_for(instance), data.getvalue())
    if outcome.code != 0:
        how = "did not end" if outcome.code is None else f"failed with code {outcome.code}"
        raise RuntimeError(f"{instance.name}: {solver.name} {how}: {outcome.last_line}.")
    answer = json.loads(outcome.out)
    if not answer["routes"]:
        raise NoRoutes(
            f"{instance.name}: {solver.name} found no routes in {seconds:g} s; allow more time"
            f"{' or vehicles' if instance.max_routes else ''}."
        )
    return answer["routes"], answer["seconds"]


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise ImportError(
            f"The reference solver {extra} is not installed; run pip install rl4co-prompt[{extra}]."
        )
