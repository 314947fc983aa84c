"""Routes in next to no time: always on to the nearest customer that still fits."""

import numpy as np

from rl4co_prompt.inference.solution import Attempt
from rl4co_prompt.tasks.instance import Instance


def nearest_neighbour(instance: Instance) -> tuple[Attempt, float, np.ndarray]:
    """An attempt without a policy, its unrounded cost and its tour."""
    xy = instance.coordinates
    demand, capacity = instance.whole
    # Beyond int64 there are only fine decimals; Python counts them exactly.
    load = np.array([0, *demand], dtype=np.int64 if capacity < 2**62 else object)
    waiting = np.ones(len(xy), dtype=bool)
    waiting[0] = False
    here, room, tour = 0, capacity, [0]
    while waiting.any():
        fits = waiting & (load <= room)
        if fits.any():
            distance = np.hypot(*(xy - xy[here]).T)
            here = int(np.where(fits, distance, np.inf).argmin())
            waiting[here], room = False, room - load[here]
        else:
            here, room = 0, capacity
        tour.append(here)
    nodes = np.array(tour)
    cost, exact = (float(instance.tour_costs(nodes[None], r)[0]) for r in (None, "none"))
    return Attempt(rank=0, copy=0, prompt=None, cost=cost, method="nearest"), exact, nodes
