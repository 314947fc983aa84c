"""Schedules: which task each training epoch or batch has.

A schedule is a pure function of its number, so that a resumed run and every process of a
distributed run take the same task.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from rl4co_prompt.tasks.task import Task, as_tasks, training_tasks


class Schedule(ABC):
    """One task per epoch.

    Args:
        tasks: tasks or their names; the paper's 341 training tasks by default.
        seed: of the random choices, where there are any.
        problem: of the default tasks, and of names that tell none.
    """

    def __init__(
        self, tasks: Sequence[Task | str] | None = None, seed: int = 0, problem: str = "cvrp"
    ):
        self.tasks = training_tasks(problem) if tasks is None else as_tasks(tasks, problem)
        if not self.tasks:
            raise ValueError("A schedule needs at least one task, got none.")
        self.seed = seed

    @abstractmethod
    def task(self, epoch: int, max_epochs: int) -> Task:
        """The task of an epoch, counted from 0, in a run of ``max_epochs``."""

    def _choice(self, tasks: Sequence[Task], epoch: int) -> Task:
        rng = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        return tasks[int(torch.randint(len(tasks), (), generator=rng))]


class Sequential(Schedule):
    """The tasks in order, again and again: the paper's way."""

    def task(self, epoch: int, max_epochs: int) -> Task:
        return self.tasks[epoch % len(self.tasks)]


class Random(Schedule):
    """A task uniformly at random."""

    def task(self, epoch: int, max_epochs: int) -> Task:
        return self._choice(self.tasks, epoch)


class RisingSize(Schedule):
    """Omni-VRP's curriculum: the size rises linearly and reaches its top at 90 % of the run.

    Among the tasks of the size one is drawn, uniformly unless :attr:`weights` names them.
    """

    def __init__(
        self, tasks: Sequence[Task | str] | None = None, seed: int = 0, problem: str = "cvrp"
    ):
        super().__init__(tasks, seed, problem)
        self.weights: dict[str, float] = {}  # by name of the task

    def tasks_at(self, epoch: int, max_epochs: int) -> list[Task]:
        """The tasks of the size that it is the turn of."""
        if max_epochs < 1:
            raise ValueError(
                f"RisingSize needs the length of the run, got max_epochs={max_epochs}."
            )
        sizes = sorted({task.num_loc for task in self.tasks})
        rise = min(epoch / (0.9 * max_epochs), 1)
        target = sizes[0] + int(rise * (sizes[-1] - sizes[0]))
        size = max(size for size in sizes if size <= target)
        return [task for task in self.tasks if task.num_loc == size]

    def task(self, epoch: int, max_epochs: int) -> Task:
        tasks = self.tasks_at(epoch, max_epochs)
        if not all(task.name in self.weights for task in tasks):
            return self._choice(tasks, epoch)
        weights = torch.tensor([self.weights[task.name] for task in tasks])
        rng = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        return tasks[int(torch.multinomial(weights, 1, generator=rng))]


class Mixture(Schedule):
    """Several schedules, one of them drawn each time.

    Args:
        schedules: to draw from.
        weights: of the schedules; equal by default.
        seed: of the draw.
    """

    def __init__(
        self,
        schedules: Sequence[Schedule],
        weights: Sequence[float] | None = None,
        seed: int = 0,
    ):
        super().__init__([task for schedule in schedules for task in schedule.tasks], seed)
        self.schedules = list(schedules)
        equal = [1.0] * len(schedules)
        self.weights = torch.tensor(equal if weights is None else list(weights), dtype=torch.float)
        if len(self.weights) != len(schedules) or not bool((self.weights > 0).all()):
            raise ValueError(
                f"Mixture needs a positive weight for each of {len(schedules)} schedules, got "
                f"{weights}."
            )

    def task(self, epoch: int, max_epochs: int) -> Task:
        rng = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        which = int(torch.multinomial(self.weights, 1, generator=rng))
        return self.schedules[which].task(epoch, max_epochs)
