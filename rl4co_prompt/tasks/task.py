"""Tasks: the distributions that instances are drawn from."""

import math

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

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


def default_capacity(num_loc: int) -> int:
    """The vehicle capacity that the paper's data has at a size."""
    return math.ceil(30 + num_loc / 5) if num_loc >= 20 else 20


def batch_size_for(num_loc: int) -> int:
    """Training batch by size, as the authors' code has it: 64, 32 above 100, 16 from 150."""
    return 64 if num_loc <= 100 else 32 if num_loc < 150 else 16


@dataclass(frozen=True)
class Task:
    """One distribution of CVRP instances: a size, a map, a vehicle capacity, a law of demands.

    Args:
        num_loc: number of customers.
        geometry: a :class:`Geometry` or its name.
        capacity: vehicle capacity in units of demand; ``None`` takes the paper's, in proportion
            to the mean demand.
        demand: a :class:`Demand` or its name; the paper's whole numbers from 1 to 9 by default.
        depot: ``centre``, ``corner`` or ``random``; ``None`` where the geometry puts it.
    """

    num_loc: int = 100
    geometry: Geometry = Uniform()  # noqa: RUF009, immutable
    capacity: int | None = None
    demand: Demand = Between()  # noqa: RUF009, immutable
    depot: str | None = None

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
        if self.capacity is None:
            object.__setattr__(self, "capacity", self._usual_capacity())
        elif not isinstance(self.capacity, int) or self.capacity < self.demand.largest:
            raise ValueError(
                f"capacity must be a whole number of at least {self.demand.largest}, the largest "
                f"demand, got {self.capacity!r}."
            )

    def _usual_capacity(self) -> int:
        return capacity_for(default_capacity(self.num_loc) / Between().mean, self.demand)

    @property
    def name(self) -> str:
        """What :meth:`from_name` reads: ``50-gm-3-10``, ``50-uniform@80``, ``50-grid:1-100``."""
        parts = [f"{self.num_loc}-{self.geometry.name}"]
        if self.capacity != self._usual_capacity():
            parts[0] += f"@{self.capacity}"
        if self.demand != Between():
            parts.append(self.demand.name)
        if self.depot is not None:
            parts.append(self.depot)
        return ":".join(parts)

    @classmethod
    def from_name(cls, name: str) -> "Task":
        """Read ``SIZE-GEOMETRY``, then as needed ``@CAPACITY``, ``:DEMAND`` and ``:DEPOT``."""
        first, *laws = str(name).split(":")
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
        )


def capacity_for(route_length: float, demand: Demand) -> int:
    """Capacity of a vehicle that serves so many customers on average."""
    return max(demand.largest, math.ceil(round(route_length * demand.mean, 6)))


def as_task(task: "Task | str") -> Task:
    """A task from itself or its name."""
    return task if isinstance(task, Task) else Task.from_name(task)


def as_tasks(tasks: "Sequence[Task | str] | Task | str") -> list[Task]:
    """Tasks from themselves or their names; one alone will do."""
    return [as_task(task) for task in ([tasks] if isinstance(tasks, Task | str) else tasks)]


def task_grid(
    sizes: Sequence[int],
    geometries: Sequence[str] = TRAINING_GEOMETRIES,
    route_lengths: Sequence[float | None] = (None,),
    demands: Sequence[str] = ("1-9",),
    depots: Sequence[str | None] = (None,),
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
        )
        for size, geometry, length, law, depot in product(
            sizes, geometries, route_lengths, laws, depots
        )
    ]


def training_tasks() -> list[Task]:
    """The paper's 341 training tasks: 31 sizes (outer loop) by 11 geometries."""
    return [
        Task(size, geometry_from_name(name))
        for size in TRAINING_SIZES
        for name in TRAINING_GEOMETRIES
    ]


def unseen_tasks() -> list[Task]:
    """The paper's 12 zero-shot test tasks: 2 sizes (outer loop) by 6 geometries."""
    return [
        Task(size, geometry_from_name(name)) for size in UNSEEN_SIZES for name in UNSEEN_GEOMETRIES
    ]
