"""LKH-3 (Helsgaun 2017) as an outside program: its parameter, problem and tour files."""

import os
import shutil
import tempfile
import time

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from rl4co_prompt.evaluation.problem import fleet, loads, span
from rl4co_prompt.evaluation.programs import Outcome, run_program
from rl4co_prompt.evaluation.solvers import NoRoutes, ReferenceSolver, Timed
from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.vrplib import vrp_text

VARIABLE = "LKH3_BINARY"
PROGRAMS = ("LKH", "LKH-3", "lkh")
GRID = 100_000  # the larger range, where lengths are not rounded; LKH-3 counts in integers

_TYPE = {"none": "EUC_2D", "nearest": "EUC_2D", "up": "CEIL_2D", "down": "FLOOR_2D"}


@dataclass(frozen=True)
class LKH3(ReferenceSolver):
    """LKH-3 through its executable.

    Args:
        binary: path or name of the program; else the variable LKH3_BINARY, else LKH on the PATH.
        seconds: time limit.
        seed: of its random numbers.
        extra_vehicles: allow more vehicles than the demand needs; LKH-3's own way is the fewest.
    """

    name: ClassVar[str] = "lkh3"
    limits: ClassVar[tuple[float, float, float]] = (5.0, 10.0, 60.0)

    binary: str | Path | None = None
    seconds: float | None = None
    seed: int = 1234
    extra_vehicles: bool = False

    def _settings(self) -> list[str]:
        return [f"seed {self.seed}", "extra vehicles" if self.extra_vehicles else "fewest vehicles"]

    def _search(self, instance: Instance) -> Timed:
        program = find_program(self.binary)
        with tempfile.TemporaryDirectory(prefix="lkh3-") as name:
            folder = Path(name)
            (folder / "problem.vrp").write_text(problem_text(instance))
            (folder / "run.par").write_text(self._parameters(instance))
            begin = time.perf_counter()
            try:
                outcome = run_program(
                    [program, "run.par"], self.patience_for(instance), folder=folder
                )
            except OSError as error:
                raise RuntimeError(f"{instance.name}: {program} can't be run: {error}.") from None
            seconds = time.perf_counter() - begin
            return self._routes(instance, outcome, folder / "best.tour"), seconds

    def _parameters(self, instance: Instance) -> str:
        # Names without a folder: LKH-3 ends a name at the first blank.
        lines = [
            "SPECIAL",
            "PROBLEM_FILE = problem.vrp",
            "TOUR_FILE = best.tour",
            "RUNS = 1",
            "MAX_TRIALS = 10000",
            f"TIME_LIMIT = {self.seconds_for(instance):f}",
            f"SEED = {self.seed}",
            "TRACE_LEVEL = 0",
            # Its default, but set only for two vehicles or more; with one no tour would be allowed.
            f"MTSP_MAX_SIZE = {instance.num_customers}",
        ]
        if self.extra_vehicles:
            lines += [f"SALESMEN = {fleet(instance)}", "MTSP_MIN_SIZE = 0"]
        return "\n".join(lines) + "\n"

    def _routes(self, instance: Instance, outcome: Outcome, tour: Path) -> list[list[int]]:
        if outcome.code:
            raise RuntimeError(
                f"{instance.name}: LKH-3 failed with code {outcome.code}: {outcome.last_line}."
            )
        if not tour.is_file():
            end = "did not end" if outcome.code is None else "found no feasible tour"
            more = "" if self.extra_vehicles else " or extra_vehicles"
            raise NoRoutes(
                f"{instance.name}: LKH-3 {end} within its limit; allow more time{more} "
                f"({outcome.last_line})."
            )
        try:
            return tour_routes(tour.read_text(errors="replace"), instance.num_customers + 1)
        except ValueError as error:
            raise RuntimeError(
                f"{instance.name}: LKH-3's tour can't be read: {error} ({outcome.last_line})."
            ) from None


def find_program(binary: str | Path | None = None) -> str:
    """Absolute path of LKH-3's executable."""
    wanted = str(binary or os.environ.get(VARIABLE, ""))
    for name in [os.path.expanduser(wanted)] if wanted else PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return os.path.abspath(found)
    raise FileNotFoundError(
        f"No LKH-3 program {f'at {wanted}' if wanted else 'on the PATH'}; build it from "
        f"http://webhotel4.ruc.dk/~keld/research/LKH-3 and set {VARIABLE} to its path."
    )


def problem_text(instance: Instance) -> str:
    """An instance as LKH-3 reads it: TSPLIB's CVRP, the depot as node 1."""
    xy = instance.coordinates
    if instance.rounding == "none":
        xy = np.rint((xy - xy.min(0)) * (GRID / span(instance))).astype(np.int64)
    # It adds up demands in 32 bits.
    demand, capacity = loads(instance, (2**31 - 1) // instance.num_customers)
    labels = {
        "NAME": "problem",
        "EDGE_WEIGHT_TYPE": _TYPE[instance.rounding],
        "CAPACITY": str(capacity),
    }
    return vrp_text(labels, xy, demand)


def tour_routes(text: str, size: int) -> list[list[int]]:
    """Routes of a TOUR_FILE; of ``size`` nodes the first is the depot, higher ones its copies."""
    _, found, section = text.partition("TOUR_SECTION")
    if not found:
        raise ValueError("it has no TOUR_SECTION")
    nodes = []
    for word in section.split():
        if word == "-1":
            break
        if not (word.isascii() and word.isdigit()) or int(word) == 0:
            raise ValueError(f"it holds {word[:20]!r} instead of a node")
        nodes.append(0 if int(word) > size else int(word) - 1)
    else:
        raise ValueError("it breaks off")
    if 0 not in nodes:
        raise ValueError("it does not visit the depot")
    start = nodes.index(0)
    routes: list[list[int]] = []
    for node in nodes[start:] + nodes[:start]:
        if node == 0:
            routes.append([])
        else:
            routes[-1].append(node)
    return [route for route in routes if route]
