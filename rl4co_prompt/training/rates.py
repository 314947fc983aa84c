"""Learning rates that fall in the course of a run."""

import math

from collections.abc import Callable, Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, MultiStepLR

LR_DECAYS = ("milestones", "cosine")


def falling(
    optimizer: Optimizer, decay: str, run: int, milestones: Sequence[float], warmup: float
) -> LRScheduler:
    """A scheduler of epochs.

    Args:
        decay: one of :data:`LR_DECAYS`.
        run: epochs in all.
        milestones: fractions of the run at which the rate falls to a tenth.
        warmup: fraction of the run in which a cosine's rate rises.
    """
    if decay == "cosine":
        return LambdaLR(optimizer, _cosine(run, warmup))
    return MultiStepLR(optimizer, [math.ceil(part * run) for part in milestones], gamma=0.1)


def _cosine(run: int, warmup: float) -> Callable[[int], float]:
    """Factor of the learning rate by epoch."""
    rising = warmup * run

    def factor(epoch: int) -> float:
        fall = 0.5 * (1 + math.cos(math.pi * min(epoch / run, 1)))
        return fall * min(1.0, (epoch + 1) / (rising + 1))

    return factor
