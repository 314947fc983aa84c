"""Customers on a grid, and the length of routes counted on its own."""

import numpy as np

from rl4co_prompt import Instance

GRID = np.array([[x, y] for x in (0, 10, 20, 30) for y in (0, 15, 30)], dtype=float)


def instance(customers=11, capacity=10, **options):
    demand = np.arange(customers) % 4 + 1
    return Instance(GRID[: customers + 1], demand, capacity, **options)


def length(instance, routes):
    """Independent of the package: float64, point by point."""
    total = 0.0
    for route in routes:
        for a, b in zip([0, *route], [*route, 0], strict=True):
            total += float(np.linalg.norm(instance.coordinates[a] - instance.coordinates[b]))
    return total
