"""Routes in next to no time: always on to the nearest customer that still fits."""

from collections.abc import Sequence

import numpy as np

from rl4co_prompt.inference.solution import Attempt
from rl4co_prompt.tasks.instance import Instance


def nearest_neighbours(instances: Sequence[Instance]) -> list[tuple[Attempt, float, np.ndarray]]:
    """Attempts without a policy at instances of one size, their unrounded costs and tours."""
    xy = np.stack([instance.coordinates for instance in instances])
    wholes = [instance.whole for instance in instances]
    # Beyond int64 there are only fine decimals; Python counts them exactly.
    counts = np.int64 if max(capacity for _, capacity in wholes) < 2**62 else object
    load = np.array([[0, *demand] for demand, _ in wholes], dtype=counts)
    capacity = np.array([capacity for _, capacity in wholes], dtype=counts)
    rows, room = np.arange(len(xy)), capacity
    waiting = np.ones(load.shape, dtype=bool)
    waiting[:, 0] = False
    here = np.zeros(len(xy), dtype=np.int64)
    tours = [here]
    while waiting.any():
        fits = waiting & (load <= room[:, None])
        distance = np.square(xy - xy[rows, here][:, None]).sum(-1)
        here = np.where(fits, distance, np.inf).argmin(1) * fits.any(1)  # 0 is the depot
        waiting[rows, here] = False
        room = np.where(here == 0, capacity, room - load[rows, here])
        tours.append(here)
    return [_attempt(*pair) for pair in zip(instances, np.stack(tours, 1), strict=True)]


def _attempt(instance: Instance, tour: np.ndarray) -> tuple[Attempt, float, np.ndarray]:
    cost, exact = (float(instance.tour_costs(tour[None], r)[0]) for r in (None, "none"))
    return Attempt(rank=0, copy=0, prompt=None, cost=cost, method="nearest"), exact, tour
