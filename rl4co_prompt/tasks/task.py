"""Tasks: the distributions that instances are drawn from."""

import math

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from rl4co_prompt.tasks.geometry import Geometry, Uniform, geometry_from_name
from rl4co_prompt.tasks.laws import DEPOTS, Between, Demand, demand_from_name

TRAINING_SIZES = range(50, 201, 5)
TRAINING_GEOMETRIES = (
    "uniform",
    "gaussian",
    *(f"gm-{modes}-{spread}" for modes in (3, 5, 7) for spread in (10, 30, 50)),
)
UNSEEN_SIZES = (50, 100)
UNSEEN_GEOMETRIES = ("cluster", "expansion", "explosion", "implosion", "grid", "mixed")


@dataclass(frozen=True)
class Problem:
    """What tasks of one of RL4CO's problems can say.

    Args:
        depot: whether there is one.
        demand: whether customers have demands and vehicles a capacity.
        even: whether customers come in pairs.
    """

    depot: bool = True
    demand: bool = False
    even: bool = False


PROBLEMS = {
    "cvrp": Problem(demand=True),
    "cvrpmvc": Problem(demand=True),
    "cvrptw": Problem(demand=True),
    "mtsp": Problem(),
    "mtvrp": Problem(),
    "op": Problem(),
    "pctsp": Problem(),
    "pdp": Problem(even=True),
    "sdvrp": Problem(demand=True),
    "spctsp": Problem(),
    "svrp": Problem(),
    "tsp": Problem(depot=False),
}


def default_capacity(num_loc: int) -> int:
    """The vehicle capacity that the paper's data has at a size."""
    return math.ceil(30 + num_loc / 5) if num_loc >= 20 else 20


# Of training, as PromptVRP's code has them: up to which size, how many instances.
BATCH_SIZES: Mapping[int, int] = MappingProxyType({100: 64, 149: 32, 200: 16})


def batch_size_for(num_loc: int, sizes: Mapping[int, int] = BATCH_SIZES) -> int:
    """Instances of a batch by their size; beyond the largest that is named, as for it."""
    limit = next((limit for limit in sorted(sizes) if num_loc <= limit), max(sizes))
    return sizes[limit]


@dataclass(frozen=True)
class Task:
    """One distribution of instances: a size, a map, a vehicle capacity, a law of demands.

    Args:
        num_loc: number of customers.
        geometry: a :class:`Geometry` or its name.
        capacity: vehicle capacity in units of demand; ``None`` takes the paper's, in proportion
            to the mean demand.
        demand: a :class:`Demand` or its name; the paper's whole numbers from 1 to 9 by default.
        depot: ``centre``, ``corner`` or ``random``; ``None`` where the geometry puts it.
        problem: one of :data:`PROBLEMS`.
    """

    num_loc: int = 100
    geometry: Geometry = Uniform()  # noqa: RUF009, immutable
    capacity: int | None = None
    demand: Demand = Between()  # noqa: RUF009, immutable
    depot: str | None = None
    problem: str = "cvrp"

    def __post_init__(self) -> None:
        for field, kind, read in (
            ("geometry", Geometry, geometry_from_name),
            ("demand", Demand, demand_from_name),
        ):
            value = getattr(self, field)
            if isinstance(value, str):
                object.__setattr__(self, field, read(value))
            elif not isinstance(value, kind):
                raise ValueError(f"{field} must be a {kind.__name__} or a name, got {value!r}.")
        if self.depot not in (None, *DEPOTS):
            raise ValueError(f"depot must be one of {', '.join(DEPOTS)}, got {self.depot!r}.")
        if not isinstance(self.num_loc, int) or self.num_loc < 1:
            raise ValueError(f"num_loc must be a whole number of at least 1, got {self.num_loc!r}.")
        self._check_problem()
        if self.capacity is None:
            object.__setattr__(self, "capacity", self._usual_capacity())
        elif not isinstance(self.capacity, int) or self.capacity < self.demand.largest:
            raise ValueError(
                f"capacity must be a whole number of at least {self.demand.largest}, the largest "
                f"demand, got {self.capacity!r}."
            )

    def _check_problem(self) -> None:
        if self.problem not in PROBLEMS:
            raise ValueError(
                f"Unknown problem {self.problem!r}; there are tasks of {', '.join(PROBLEMS)}."
            )
        problem = PROBLEMS[self.problem]
        if problem.even and self.num_loc % 2:
            raise ValueError(
                f"Customers of {self.problem} come in pairs, so num_loc must be even, got "
                f"{self.num_loc}."
            )
        if self.depot is not None and not problem.depot:
            raise ValueError(f"{self.problem} has no depot that could be at the {self.depot}.")
        if not problem.demand and (self.capacity is not None or self.demand != Between()):
            raise ValueError(f"{self.problem} has neither capacity nor demands; leave them out.")

    def _usual_capacity(self) -> int | None:
        if not PROBLEMS[self.problem].demand:
            return None
        return capacity_for(default_capacity(self.num_loc) / Between().mean, self.demand)

    @property
    def name(self) -> str:
        """What :meth:`from_name` reads: ``50-gm-3-10``, ``50-uniform@80``, ``tsp:50-cluster``."""
        parts = [f"{self.num_loc}-{self.geometry.name}"]
        if self.capacity != self._usual_capacity():
            parts[0] += f"@{self.capacity}"
        if self.demand != Between():
            parts.append(self.demand.name)
        if self.depot is not None:
            parts.append(self.depot)
        return ":".join(parts if self.problem == "cvrp" else [self.problem, *parts])

    @classmethod
    def from_name(cls, name: str, problem: str = "cvrp") -> "Task":
        """Read ``SIZE-GEOMETRY``, then as needed ``@CAPACITY``, ``:DEMAND`` and ``:DEPOT``.

        Args:
            problem: where the name does not begin with ``PROBLEM:``.
        """
        first, *laws = str(name).split(":")
        if laws and first.isidentifier():
            problem, first, *laws = first, *laws
        body, at, capacity = first.partition("@")
        size, dash, geometry = body.partition("-")
        if not (size.isdecimal() and dash and (capacity.isdecimal() or not at)):
            raise ValueError(
                f"Unknown task {name!r}; write SIZE-GEOMETRY or SIZE-GEOMETRY@CAPACITY, "
                "such as 50-uniform or 100-gm-3-10@80."
            )
        depots = [law for law in laws if law in DEPOTS]
        demands = [law for law in laws if law not in DEPOTS]
        if len(depots) > 1 or len(demands) > 1:
            raise ValueError(f"The task {name!r} has more than one demand or depot.")
        return cls(
            int(size),
            geometry_from_name(geometry),
            int(capacity) if at else None,
            demand_from_name(demands[0]) if demands else Between(),
            depots[0] if depots else None,
            problem,
        )


def capacity_for(route_length: float, demand: Demand) -> int:
    """Capacity of a vehicle that serves so many customers on average."""
    return max(demand.largest, math.ceil(round(route_length * demand.mean, 6)))


def as_task(task: "Task | str", problem: str = "cvrp") -> Task:
    """A task from itself or its name."""
    return task if isinstance(task, Task) else Task.from_name(task, problem)


def as_tasks(tasks: "Sequence[Task | str] | Task | str", problem: str = "cvrp") -> list[Task]:
    """Tasks from themselves or their names; one alone will do.

    Args:
        problem: of names that tell none.
    """
    named = [tasks] if isinstance(tasks, Task | str) else tasks
    return [as_task(task, problem) for task in named]


def only_problem(tasks: Sequence[Task]) -> str:
    """The problem that all the tasks are of."""
    problems = sorted({task.problem for task in tasks})
    if len(problems) > 1:
        raise ValueError(f"The tasks are of {', '.join(problems)}; give tasks of one problem.")
    return problems[0]


def task_grid(
    sizes: Sequence[int],
    geometries: Sequence[str] = TRAINING_GEOMETRIES,
    route_lengths: Sequence[float | None] = (None,),
    demands: Sequence[str] = ("1-9",),
    depots: Sequence[str | None] = (None,),
    problem: str = "cvrp",
) -> list[Task]:
    """All combinations; what is named twice counts twice.

    Args:
        route_lengths: mean customers of a full route, which set the capacity; ``None`` takes the
            paper's.
    """
    laws = [demand_from_name(name) for name in demands]
    return [
        Task(
            size,
            geometry,  # type: ignore[arg-type]
            None if length is None else capacity_for(length, law),
            law,
            depot,
            problem,
        )
        for size, geometry, length, law, depot in product(
            sizes, geometries, route_lengths, laws, depots
        )
    ]


def training_tasks(problem: str = "cvrp") -> list[Task]:
    """The paper's 341 training tasks: 31 sizes (outer loop) by 11 geometries.

    Args:
        problem: the same maps for another one, without sizes that it does not have.
    """
    return [
        Task(size, geometry_from_name(name), problem=problem)
        for size in TRAINING_SIZES
        for name in TRAINING_GEOMETRIES
        if not (size % 2 and problem in PROBLEMS and PROBLEMS[problem].even)
    ]


def unseen_tasks(problem: str = "cvrp") -> list[Task]:
    """The paper's 12 zero-shot test tasks: 2 sizes (outer loop) by 6 geometries.

    Args:
        problem: the same maps for another one.
    """
    return [
        Task(size, geometry_from_name(name), problem=problem)
        for size in UNSEEN_SIZES
        for name in UNSEEN_GEOMETRIES
    ]
