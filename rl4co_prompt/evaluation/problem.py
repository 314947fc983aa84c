"""What a reference solver is given: an instance in the numbers and ranges that solvers take."""

import math

from collections.abc import Iterator
from itertools import combinations, pairwise, permutations, product

import numpy as np

from rl4co_prompt.tasks.instance import Instance, Routes

TINY = 3  # customers


def distances(instance: Instance) -> np.ndarray:
    """Cost of every edge by the instance's own rounding. -> [n + 1, n + 1]"""
    nodes = np.arange(instance.num_customers + 1)
    # There and back is a tour of two steps.
    rows = [instance.tour_costs(np.stack([np.full_like(nodes, i), nodes], 1)) for i in nodes]
    return np.stack(rows) / 2


def span(instance: Instance) -> float:
    """The larger range of the coordinates; 1 where all points coincide."""
    return float(np.ptp(instance.coordinates, axis=0).max()) or 1.0


def loads(instance: Instance, largest: int) -> tuple[list[int], int]:
    """Integer demands and capacity that allow the same routes.

    Args:
        largest: capacity that the solver can count to; beyond it demands are rounded up to a
            coarser unit, so that some routes are lost but none too many is allowed.
    """
    demand, capacity = instance.whole
    unit = math.gcd(*demand)
    if unit == 0:  # solvers take no vehicle without load
        return [1] * len(demand), len(demand)
    demand = [d // unit for d in demand]
    capacity = min(capacity // unit, sum(demand))
    if capacity > largest:
        demand, capacity = [-(-d * largest // capacity) for d in demand], largest
    return demand, capacity


def min_routes(instance: Instance) -> int:
    """Vehicles that could hold the whole demand if it were liquid."""
    demand, capacity = instance.whole
    return max(1, -(-sum(demand) // capacity))


def fleet(instance: Instance) -> int:
    """Vehicles for solvers that slow down with each: all allowed, or more than good routes need."""
    wanted = instance.max_routes or 2 * min_routes(instance) + 5
    return min(wanted, instance.num_customers)


def fault(instance: Instance, routes: Routes) -> str | None:
    """What is wrong with routes, the number of vehicles included; None if they are feasible."""
    allowed = instance.max_routes
    if allowed and len(routes) > allowed:
        return f"there are {len(routes)} routes, but {allowed} vehicles"
    return instance.violation(routes)


def shortest(instance: Instance) -> list[list[int]]:
    """The best routes, by trying all; for tiny instances."""
    feasible = [r for r in _all_routes(instance.num_customers) if fault(instance, r) is None]
    if not feasible:
        raise RuntimeError(
            f"{instance.name} has no feasible routes with {instance.max_routes} vehicles."
        )
    return min(feasible, key=instance.cost)


def _all_routes(size: int) -> Iterator[list[list[int]]]:
    cuts = [cut for count in range(size) for cut in combinations(range(1, size), count)]
    for order, cut in product(permutations(range(1, size + 1)), cuts):
        ends = (0, *cut, size)
        yield [list(order[a:b]) for a, b in pairwise(ends)]
