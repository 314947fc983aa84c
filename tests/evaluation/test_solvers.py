import sys

import numpy as np
import pytest

from rl4co_prompt.evaluation import solvers
from rl4co_prompt.evaluation.lkh import LKH3
from rl4co_prompt.evaluation.solvers import HGS, ORTools
from rl4co_prompt.tasks.instance import Instance
from tests.evaluation.small import best_cost, small_instance

SECONDS = 0.1


@pytest.fixture(params=[HGS, ORTools], ids=["hgs", "ortools"])
def solver(request):
    pytest.importorskip("hygese" if request.param is HGS else "ortools")
    return request.param(seconds=SECONDS)


@pytest.mark.parametrize("rounding", ["none", "nearest", "up", "down"])
def test_six_customers_are_solved_to_the_optimum(solver, rounding):
    instance = small_instance(6, seed=3, rounding=rounding)

    assert instance.cost(solver.solve(instance)) == pytest.approx(best_cost(instance), rel=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", [HGS, LKH3, ORTools])
def test_tiny_instances_need_no_solver(kind, size):
    instance = small_instance(size, capacity=12)

    assert instance.cost(kind().solve(instance)) == best_cost(instance)


@pytest.mark.parametrize(
    "fields",
    [
        {"coordinates": 1e6, "rounding": "nearest"},
        {"coordinates": 1e-6},
        {"coordinates": 0.0},
        {"coordinates": 0.0, "rounding": "up"},
        {"demand": 0.0},
        {"demand": 12345.678901},
        {"demand": 1e-4},
    ],
    ids=["far", "near", "one point", "one point, rounded", "no demand", "fine demand", "light"],
)
def test_unusual_numbers_are_solved_to_the_optimum(solver, fields):
    plain = small_instance(5, seed=1)
    load = fields.get("demand", 1.0)
    instance = Instance(
        plain.coordinates * fields.get("coordinates", 1.0),
        [float(f"{load * d:.10g}") for d in plain.demand],
        float(f"{load * 20:.10g}") or 20.0,
        rounding=fields.get("rounding", "none"),
    )

    assert instance.cost(solver.solve(instance)) == pytest.approx(best_cost(instance), rel=1e-9)


def test_more_vehicles_than_the_demand_needs_are_used_where_they_pay(solver):
    # Two vehicles could hold all, but only by going to both sides of the depot.
    points = np.array([[0, 0], [10, 0], [10, 1], [-10, 0], [-10, 1]])
    routes = solver.solve(Instance(points, [6, 6, 4, 4], 10))

    assert sorted(map(sorted, routes)) == [[1], [2], [3, 4]]


def test_a_limit_of_vehicles_is_kept(solver):
    free = Instance(small_instance(6).coordinates, [5, 5, 5, 5, 5, 5], 15)
    tight = Instance(free.coordinates, free.demand, 15, max_routes=2)

    assert len(solver.solve(tight)) == 2
    assert tight.cost(solver.solve(tight)) == pytest.approx(best_cost(tight), rel=1e-9)


def test_vehicles_that_can_not_hold_the_demand_are_told_before_solving():
    instance = small_instance(6, max_routes=1, capacity=9)

    with pytest.raises(
        RuntimeError, match=r"small-6-0: a fleet of 1 can't hold its demand; 4 might"
    ):
        HGS().solve(instance)


def test_no_routes_are_told_in_one_sentence(solver):
    # Three times 5 does not go into two times 9, though the sum does.
    instance = Instance(small_instance(4).coordinates, [5, 5, 5, 3], 9, name="packed", max_routes=2)

    with pytest.raises(RuntimeError, match=r"^packed: \w+ found no routes in 0.1 s; allow more"):
        solver.solve(instance)


def test_ortools_tries_again_with_a_vehicle_for_each_customer(monkeypatch):
    pytest.importorskip("ortools")
    monkeypatch.setattr(solvers, "fleet", lambda instance: 1)
    instance = small_instance(6)

    assert len(ORTools(SECONDS).solve(instance)) > 1


def test_a_library_that_fails_is_quoted():
    pytest.importorskip("hygese")

    with pytest.raises(RuntimeError, match=r"small-10-0: hgs failed with code 1: TypeError: .*\."):
        HGS(SECONDS, seed="one").solve(small_instance())


@pytest.mark.parametrize(("kind", "package"), [(HGS, "hygese"), (ORTools, "ortools")])
def test_a_missing_package_names_its_extra(kind, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImportError, match=rf"pip install rl4co-prompt\[{kind.name}\]"):
        kind(SECONDS).solve(small_instance())


def test_wrong_routes_are_refused(monkeypatch):
    monkeypatch.setattr(HGS, "_search", lambda self, instance: ([[1, 2]], 0.1))

    with pytest.raises(RuntimeError, match="small-10-0: the routes of hgs are wrong: the routes"):
        HGS().solve(small_instance())


def test_routes_without_customers_are_dropped(monkeypatch):
    monkeypatch.setattr(HGS, "_search", lambda self, instance: ([[], [1, 2], [3, 4], []], 0.1))

    assert HGS().solve(small_instance(4)) == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("size", "limits"),
    [(50, (5, 5, 5)), (51, (10, 10, 10)), (100, (10, 10, 10)), (101, (20, 60, 20))],
)
def test_limits_are_the_papers_by_size(size, limits):
    instance = small_instance(size)

    found = tuple(kind().seconds_for(instance) for kind in (HGS, LKH3, ORTools))
    assert found == limits
    assert HGS(seconds=3).seconds_for(instance) == 3


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_limit_must_be_positive(seconds):
    with pytest.raises(ValueError, match="time limit must be a positive number"):
        HGS(seconds)


def test_keys_tell_solvers_and_settings_apart():
    instance, large = small_instance(), small_instance(101)
    kinds = [HGS(), HGS(6), HGS(seed=2), LKH3(), LKH3(seed=2), LKH3(extra_vehicles=True), ORTools()]

    assert len({solver.key(instance) for solver in kinds}) == len(kinds)
    assert HGS().key(instance) == HGS(5).key(instance) == "hgs 5.0 s seed 1"
    assert HGS().key(large) == HGS(20).key(large)
    assert LKH3("here").key(instance) == LKH3("there").key(instance)
