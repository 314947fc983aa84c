import numpy as np
import pytest

from rl4co_prompt import Instance
from rl4co_prompt.inference.nearest import nearest_neighbours
from rl4co_prompt.inference.search import routes_of
from tests.inference.grid import length


@pytest.mark.parametrize(("n", "capacity"), [(1, 9), (7, 9), (300, 30), (1000, 10**12), (9, 0.3)])
def test_nearest_neighbours_give_feasible_routes_at_once(n, capacity):
    rng = np.random.default_rng(1)
    scale = 0.03333333333333333 if capacity < 1 else 1  # beyond int64 as whole numbers
    instances = [
        Instance(rng.integers(0, 100, (n + 1, 2)), scale * rng.integers(1, 10, n), capacity)
        for _ in range(3)
    ]
    for one, (attempt, exact, tour) in zip(instances, nearest_neighbours(instances), strict=True):
        assert one.violation(routes_of(tour)) is None
        assert exact == pytest.approx(attempt.cost) == pytest.approx(length(one, routes_of(tour)))


def test_neighbours_are_taken_nearest_first():
    line = Instance([[0, 0], [3, 0], [1, 0], [-2, 0]], [1, 1, 1], 2)
    other = Instance([[0, 0], [3, 0], [1, 0], [-2, 0]], [2, 1, 1], 2)
    routes = [routes_of(tour) for _, _, tour in nearest_neighbours([line, other])]

    assert routes == [[[2, 1], [3]], [[2, 3], [1]]]
