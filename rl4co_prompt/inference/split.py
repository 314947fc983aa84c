"""Routes that carry too much, split where it costs least."""

import numpy as np

from rl4co_prompt.tasks.instance import Instance


def split_overloads(instance: Instance, tour: np.ndarray) -> np.ndarray:
    """A tour, [step] from the depot on, with more visits to the depot where loads need them."""
    demand, capacity = instance.whole
    routes = [part[part != 0].tolist() for part in np.split(tour, np.flatnonzero(tour == 0))]
    if all(sum(demand[c - 1] for c in route) <= capacity for route in routes):
        return tour
    parts = [part for route in routes if route for part in _split(instance, route)]
    return np.array([node for part in parts for node in (0, *part)])


def _split(instance: Instance, route: list[int]) -> list[list[int]]:
    """Consecutive parts within the capacity, with the least detours to the depot."""
    demand, capacity = instance.whole
    best, cut = [0.0], [0]  # of the first so many customers, and where their last part begins
    for end in range(1, len(route) + 1):
        load, options = 0, []
        for begin in range(end - 1, -1, -1):
            load += demand[route[begin] - 1]
            if load > capacity:
                break
            options.append((best[begin] + _detour(instance, route, begin), begin))
        least, begin = min(options)
        best.append(least)
        cut.append(begin)
    parts, end = [], len(route)
    while end > 0:
        parts.append(route[cut[end] : end])
        end = cut[end]
    return parts[::-1]


def _detour(instance: Instance, route: list[int], at: int) -> float:
    """Through the depot instead of straight on to the customer ``at``."""
    if at == 0:
        return 0.0
    a, b = route[at - 1], route[at]
    to_depot, from_depot, straight = (
        float(instance.edge_costs(x, y)) for x, y in ((a, 0), (0, b), (a, b))
    )
    return to_depot + from_depot - straight
