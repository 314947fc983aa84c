"""Batches that can be drawn again: an epoch with a task for each, and the seed of a step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy

import torch

from tensordict import TensorDict
from torch.utils.data import DataLoader, Dataset

from rl4co_prompt.tasks.generator import FollowsTask
from rl4co_prompt.tasks.schedule import Schedule
from rl4co_prompt.tasks.task import Task


class TaskBatches(Dataset):
    """An epoch's batches, each of a task of its own; any of them can be drawn again.

    Where several processes train, the batches of one step share a task: all processes then learn
    from the same teacher, or all by rewards, and none waits for another's larger instances.

    Args:
        generator: of the instances; it keeps its task.
        schedule: of the batches, numbered through the whole run.
        batch_size_of: a task.
        count: batches of an epoch.
        epoch, epochs: this one, counted from 0, and all.
        seed: of the instances.
        device: whose random state is kept, too.
        processes: that share the batches in turn.
    """

    def __init__(
        self,
        generator: FollowsTask,
        schedule: Schedule,
        batch_size_of: Callable[[Task], int],
        count: int,
        epoch: int,
        epochs: int,
        seed: int,
        device: torch.device,
        processes: int = 1,
    ):
        self.generator, self.schedule, self.batch_size_of = generator, schedule, batch_size_of
        self.count = -(-count // processes) * processes  # a last step of all of them
        self.first, self.total = epoch * self.count, epochs * self.count
        self.seed, self.device, self.processes = seed, device, processes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> TensorDict:
        if not 0 <= index < self.count:
            raise IndexError(index)
        number = self.first + index
        generator = copy(self.generator)
        step, steps = number // self.processes, self.total // self.processes
        generator.task = self.schedule.task(step, steps)
        with seeded(self.seed, number, device=self.device):
            return generator(self.batch_size_of(generator.task))

    def loader(self) -> DataLoader:
        return DataLoader(self, batch_size=None, collate_fn=_as_it_is)


def _as_it_is(batch: TensorDict) -> TensorDict:
    return batch


@contextmanager
def seeded(*numbers: int, device: torch.device | None = None) -> Iterator[None]:
    """Torch's global random state from these numbers, and as it was afterwards."""
    state = 0
    for number in numbers:
        state = (state * 1_000_003 + number + 1) % (2**63)
    with torch.random.fork_rng([device] if device is not None and device.type == "cuda" else []):
        torch.manual_seed(state)
        yield
