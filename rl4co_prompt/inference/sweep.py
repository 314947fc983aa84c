"""Routes in no time: customers by their angle around the depot."""

import numpy as np

from rl4co_prompt.inference.solution import Attempt
from rl4co_prompt.tasks.instance import Instance


def sweep(instance: Instance) -> tuple[Attempt, float, np.ndarray]:
    """An attempt without a policy, its unrounded cost and its tour."""
    x, y = (instance.coordinates[1:] - instance.coordinates[0]).T
    demand, capacity = instance.whole
    tour, load = [], 0
    for customer in np.argsort(np.arctan2(y, x), kind="stable").tolist():
        if load + demand[customer] > capacity:
            tour.append(0)
            load = 0
        tour.append(customer + 1)
        load += demand[customer]
    nodes = np.array([*tour, 0])
    cost, exact = (float(instance.tour_costs(nodes[None], r)[0]) for r in (None, "none"))
    return Attempt(rank=0, copy=0, prompt=None, cost=cost, method="sweep"), exact, nodes
