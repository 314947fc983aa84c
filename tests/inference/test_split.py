"""Overloaded routes, against all ways to cut them."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from rl4co_prompt import Instance, MultiTaskCVRPEnv
from rl4co_prompt.inference.search import Pass, Search, routes_of
from rl4co_prompt.inference.split import split_overloads


def cheapest(one, route):
    """By trying all cuts."""
    costs = []
    for count in range(len(route)):
        for cuts in combinations(range(1, len(route)), count):
            edges = [0, *cuts, len(route)]
            routes = [route[a:b] for a, b in pairwise(edges)]
            if all(sum(one.demand[c - 1] for c in part) <= one.capacity for part in routes):
                costs.append(one.cost(routes))
    return min(costs)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 7), st.integers(0, 10**6), st.sampled_from(["none", "nearest"]))
def test_a_route_is_cut_where_it_costs_least(n, seed, rounding):
    rng = np.random.default_rng(seed)
    one = Instance(rng.integers(0, 50, (n + 1, 2)), rng.integers(1, 10, n), 12, rounding=rounding)
    route = (rng.permutation(n) + 1).tolist()
    routes = routes_of(split_overloads(one, np.array([0, *route, 0])))

    assert [customer for part in routes for customer in part] == route
    assert one.violation(routes) is None
    assert one.cost(routes) == pytest.approx(cheapest(one, route))


def test_a_tour_within_the_capacity_stays():
    one = Instance([[0, 0], [1, 0], [2, 0]], [6, 6], 12)
    tour = np.array([0, 2, 1])

    assert split_overloads(one, tour) is tour


@pytest.mark.parametrize("rounding", ["none", "nearest"])
def test_a_large_capacity_is_used_to_the_last_unit(policy, rounding):
    """Three fill a vehicle; a fourth of one unit, invisible to float32, does not fit."""
    rng = np.random.default_rng(0)
    n, env = 16, MultiTaskCVRPEnv(check_solution=False)
    demand = [333_333_333, 333_333_333, 333_333_334, 1] * (n // 4)
    one = Instance(rng.integers(0, 100, (n + 1, 2)), demand, 10**9, rounding=rounding)
    search = Search(policy, env, [one])
    search.run(Pass(0, (0,)))
    (solution,) = search.solutions()

    assert not one.counts_exactly
    assert one.violation(solution.routes) is None
    assert solution.best.cost == pytest.approx(one.cost(solution.routes))
    assert env.reset(search._instances)["demand"][0, :3].sum() <= 1 + 1e-5
