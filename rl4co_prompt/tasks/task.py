"""Tasks: the distributions that instances are drawn from."""

import math

from collections.abc import Sequence
from dataclasses import dataclass

from rl4co_prompt.tasks.geometry import Geometry, Uniform, geometry_from_name

MAX_DEMAND = 9  # demands are the integers 1 to 9
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
    """One distribution of CVRP instances: a size, a map and a vehicle capacity.

    Args:
        num_loc: number of customers.
        geometry: a :class:`Geometry` or its name.
        capacity: vehicle capacity in units of demand; ``None`` takes the paper's.
    """

    num_loc: int = 100
    geometry: Geometry = Uniform()  # noqa: RUF009, immutable
    capacity: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.geometry, str):
            object.__setattr__(self, "geometry", geometry_from_name(self.geometry))
        if not isinstance(self.geometry, Geometry):
            raise ValueError(f"geometry must be a Geometry or a name, got {self.geometry!r}.")
        if not isinstance(self.num_loc, int) or self.num_loc < 1:
            raise ValueError(f"num_loc must be a whole number of at least 1, got {self.num_loc!r}.")
        if self.capacity is None:
            object.__setattr__(self, "capacity", default_capacity(self.num_loc))
        elif not isinstance(self.capacity, int) or self.capacity < MAX_DEMAND:
            raise ValueError(
                f"capacity must be a whole number of at least {MAX_DEMAND}, the largest demand, "
                f"got {self.capacity!r}."
            )

    @property
    def name(self) -> str:
        """The name that :meth:`from_name` reads, such as ``50-gm-3-10`` or ``50-uniform@80``."""
        usual = self.capacity == default_capacity(self.num_loc)
        return f"{self.num_loc}-{self.geometry.name}" + ("" if usual else f"@{self.capacity}")

    @classmethod
    def from_name(cls, name: str) -> "Task":
        """Read ``SIZE-GEOMETRY`` or ``SIZE-GEOMETRY@CAPACITY``."""
        body, at, capacity = str(name).partition("@")
        size, dash, geometry = body.partition("-")
        if not (size.isdecimal() and dash and (capacity.isdecimal() or not at)):
            raise ValueError(
                f"Unknown task {name!r}; write SIZE-GEOMETRY or SIZE-GEOMETRY@CAPACITY, "
                "such as 50-uniform or 100-gm-3-10@80."
            )
        return cls(int(size), geometry_from_name(geometry), int(capacity) if at else None)


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
) -> list[Task]:
    """All combinations; what is named twice counts twice.

    Args:
        route_lengths: mean customers of a full route, which set the capacity; ``None`` takes the
            paper's.
    """
    return [
        Task(size, geometry, None if length is None else _capacity_for(length))  # type: ignore[arg-type]
        for size in sizes
        for geometry in geometries
        for length in route_lengths
    ]


def _capacity_for(route_length: float) -> int:
    return max(MAX_DEMAND, round(route_length * (1 + MAX_DEMAND) / 2))


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
