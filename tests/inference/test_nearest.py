import numpy as np
import pytest

from rl4co_prompt import Instance
from rl4co_prompt.inference.nearest import nearest_neighbour
from rl4co_prompt.inference.search import routes_of
from tests.inference.grid import length


def test_nearest_neighbours_give_feasible_routes_at_once():
    rng = np.random.default_rng(1)
    for n, capacity in ((1, 9), (7, 9), (300, 30), (1000, 10**12)):
        one = Instance(rng.integers(0, 100, (n + 1, 2)), rng.integers(1, 10, n), capacity)
        attempt, exact, tour = nearest_neighbour(one)
        assert one.violation(routes_of(tour)) is None
        assert exact == pytest.approx(attempt.cost) == pytest.approx(length(one, routes_of(tour)))


def test_neighbours_are_taken_nearest_first():
    line = Instance([[0, 0], [3, 0], [1, 0], [-2, 0]], [1, 1, 1], 2)

    assert routes_of(nearest_neighbour(line)[2]) == ((2, 1), (3,))
