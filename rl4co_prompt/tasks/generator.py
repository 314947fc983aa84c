"""TaskGenerator: RL4CO's data generator for one task at a time."""

from abc import abstractmethod

import torch

from rl4co.envs.common.utils import Generator
from tensordict import TensorDict

from rl4co_prompt.tasks.laws import place_depot
from rl4co_prompt.tasks.task import Task, as_task


class FollowsTask(Generator):
    """Draws instances of one task of a problem.

    Assign ``generator.task = other`` to change the distribution; nothing is cached, so the next
    batch follows the new task.

    Args:
        task: the task or its name.
        device: where instances are drawn.
    """

    def __init__(self, task: Task | str, device: torch.device | str = "cpu"):
        super().__init__()
        self._task = as_task(task)
        self.task = self._task
        self.device = torch.device(device)

    @property
    def task(self) -> Task:
        return self._task

    @task.setter
    def task(self, task: Task | str) -> None:
        problem = self._task.problem
        new = as_task(task, problem)
        if new.problem != problem:
            raise ValueError(f"The instances are of {problem}, the task {new.name} is not.")
        self._task = new

    @property
    def num_loc(self) -> int:
        return self.task.num_loc

    def __call__(
        self, batch_size: int | list[int] | torch.Size, rng: torch.Generator | int | None = None
    ) -> TensorDict:
        """Draw a batch.

        Args:
            batch_size: number of instances, or a shape.
            rng: a random generator (its device is where the instances are drawn) or a seed;
                torch's global one by default, as in RL4CO's generators.
        """
        shape = torch.Size([batch_size] if isinstance(batch_size, int) else batch_size)
        if rng is None:
            rng = _global_generator(self.device)
        elif isinstance(rng, int):
            rng = torch.Generator(self.device).manual_seed(rng)
        return self._generate(shape, rng)

    @abstractmethod
    def _generate(self, batch_size: torch.Size, rng: torch.Generator) -> TensorDict: ...


class TaskGenerator(FollowsTask):
    """Draw CVRP instances from one :class:`Task`.

    Args:
        task: the task or its name; 100 uniform customers by default.
        num_loc, geometry, capacity, demand, depot: of the task, instead of ``task``.
        device: where instances are drawn.
    """

    # CVRPEnv reads these when it builds its specs.
    min_loc, max_loc = 0.0, 1.0
    min_demand, max_demand = 1, 9
    vehicle_capacity = 1.0

    def __init__(
        self,
        task: Task | str | None = None,
        *,
        num_loc: int | None = None,
        geometry: str | None = None,
        capacity: int | None = None,
        demand: str | None = None,
        depot: str | None = None,
        device: torch.device | str = "cpu",
    ):
        fields = {
            "num_loc": num_loc,
            "geometry": geometry,
            "capacity": capacity,
            "demand": demand,
            "depot": depot,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        if task is not None and given:
            raise ValueError(f"Give either task or {', '.join(given)}, not both.")
        chosen = Task(**given) if task is None else as_task(task)  # type: ignore[arg-type]
        if chosen.problem != "cvrp":
            raise ValueError(f"{chosen.name} is no task of CVRP; make its env by task_env.")
        super().__init__(chosen, device)

    @property
    def capacity(self) -> int:
        assert self.task.capacity is not None  # Task fills it in
        return self.task.capacity

    def _generate(self, batch_size: torch.Size, rng: torch.Generator) -> TensorDict:
        num_loc, device = self.num_loc, rng.device
        xy = self.task.geometry.sample(batch_size.numel(), num_loc, rng)
        xy = xy.view(*batch_size, num_loc + 1, 2)
        demand = self.task.demand.sample(xy[..., 1:, :], rng)
        xy = place_depot(xy, self.task.depot, rng)
        return TensorDict(
            {
                "depot": xy[..., 0, :],
                "locs": xy[..., 1:, :],
                "demand": demand / self.capacity,
                "capacity": torch.full((*batch_size, 1), float(self.capacity), device=device),
            },
            batch_size=batch_size,
            device=device,  # RL4CO's reset makes its own tensors there
        )


def _global_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.init()
        return torch.cuda.default_generators[index]
    return torch.default_generator
