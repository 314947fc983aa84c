"""Small instances, and their best cost found by trying everything."""

from functools import cache
from itertools import permutations

import numpy as np

from rl4co_prompt.tasks.instance import Instance


def small_instance(size=10, seed=0, **fields):
    rng = np.random.default_rng(seed)
    fields = {"capacity": 20, "name": f"small-{size}-{seed}", **fields}
    return Instance(rng.uniform(-30, 70, (size + 1, 2)), rng.integers(1, 10, size), **fields)


def best_cost(instance):
    """The optimum: every set of customers as one route, and every way to split them up."""
    demand, capacity = instance.whole

    @cache
    def route(customers):
        if sum(demand[c - 1] for c in customers) > capacity:
            return float("inf")
        return min(instance.cost([order]) for order in permutations(sorted(customers)))

    @cache
    def split(customers, vehicles):
        if not customers:
            return 0
        if vehicles == 0:
            return float("inf")
        first, *others = sorted(customers)
        parts = [{first}]
        for other in others:
            parts += [part | {other} for part in parts]
        return min(
            route(frozenset(part)) + split(customers - frozenset(part), vehicles - 1)
            for part in parts
        )

    size = instance.num_customers
    return split(frozenset(range(1, size + 1)), instance.max_routes or size)
