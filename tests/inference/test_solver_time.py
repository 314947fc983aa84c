"""Time limits: what they let the solver do, and what it learns from them."""

import time
import warnings

import numpy as np
import pytest

from rl4co_prompt import Instance, Solver, TaskGenerator
from rl4co_prompt.inference.pace import Pace
from rl4co_prompt.inference.search import Search
from tests.inference.grid import instance


@pytest.fixture
def clock(solver, monkeypatch):
    """Time that only passes of the policy take: a second for each start."""
    now = [0.0]
    monkeypatch.setattr("rl4co_prompt.inference.solver.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(solver, "pace", Pace())
    run = Search.run

    def slow(search, step, first=0, last=None):
        now[0] += (last or search.size) - first
        run(search, step, first, last)

    monkeypatch.setattr(Search, "run", slow)
    return now


def test_samples_without_end_go_on_until_the_limit(solver, clock):
    found = solver.solve(TaskGenerator("10-uniform")(2, rng=0), 1, False, 100, samples=None)

    assert all(x.attempts[-1].method == "sampled" for x in found)
    assert 80 <= clock[0] <= 100


def test_a_limit_that_allows_everything_changes_nothing(solver):
    td = TaskGenerator("12-cluster")(3, rng=0)
    free, limited = solver.solve(td), solver.solve(td, time_limit=600)

    assert [x.rollouts for x in limited] == [x.rollouts for x in free]
    assert [x.cost for x in limited] == pytest.approx([x.cost for x in free], rel=1e-3)


def test_without_time_for_the_policy_routes_go_to_neighbours_and_a_warning(solver):
    td = TaskGenerator("14-cluster")(3, rng=0)
    with pytest.warns(UserWarning, match="before the policy reached 3 of 3 instances"):
        found = solver.solve(td, time_limit=1e-9)

    assert [x.method for x in found] == ["nearest"] * 3
    assert [x.prompt for x in found] == [None] * 3


def test_more_time_is_never_worse_than_neighbours(solver):
    """An untrained policy loses to them."""
    td = TaskGenerator("14-cluster")(8, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at_once = solver.solve(td, time_limit=1e-9)
    later = solver.solve(td, num_prompts=1, augment=False)

    assert all(b.cost <= a.cost for a, b in zip(at_once, later, strict=True))
    assert any(x.method == "nearest" and x.attempts for x in later)


def test_every_instance_gets_its_turn_before_any_gets_more(solver, clock):
    """Time for a few starts of each of two sizes, not for all starts of the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solver.solve([instance(11), instance(5)], 1, False, time_limit=30)

    assert all(x.attempts for x in found)
    assert clock[0] <= 30


def test_one_slow_moment_does_not_shut_the_policy_out(solver):
    solver.pace.learn(500.0, rows=1, size=12, starts=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            solver.solve(TaskGenerator("12-grid")(1, rng=0), time_limit=5)[0] for _ in range(20)
        ]

    assert not found[0].attempts
    assert found[-1].attempts


def test_a_thousand_customers_are_solved_within_a_limit(outside_backbone):
    """By the policy or, on a slow machine, from neighbour to neighbour."""
    rng = np.random.default_rng(0)
    big = Instance(rng.integers(0, 1000, (1001, 2)), rng.integers(1, 100, 1000), 1000)
    solver = Solver(outside_backbone)
    begin = time.perf_counter()
    solution = solver.solve(big, augment=False, time_limit=5)

    assert big.violation(solution.routes) is None
    assert time.perf_counter() - begin < 60
