import threading

from dataclasses import dataclass, field

import pytest

from rl4co_prompt.evaluation.programs import run_program
from rl4co_prompt.evaluation.references import (
    HGS,
    LKH3,
    Cache,
    ORTools,
    Reference,
    reference_costs,
    reference_solver,
)
from tests.evaluation.small import small_instance
from tests.waiting import until


@dataclass
class Singles:
    """A solver that visits every customer alone, and notes what it was asked."""

    interrupt_at: str = ""
    name: str = "singles"
    asked: list = field(default_factory=list)

    def key(self, instance):
        return self.name

    def timed(self, instance):
        self.asked.append(instance.name)
        if instance.name == self.interrupt_at:
            raise KeyboardInterrupt
        return [[customer] for customer in range(1, instance.num_customers + 1)], 0.5


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "references.sqlite")


@pytest.fixture
def instances():
    return [small_instance(4, seed, rounding="nearest") for seed in range(5)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_references_come_in_order_with_recomputed_costs(instances, jobs):
    found = reference_costs(instances, Singles(), jobs=jobs)

    for instance, reference in zip(instances, found, strict=True):
        routes = [[1], [2], [3], [4]]
        assert reference == Reference(
            instance.cost(routes), routes, reference.seconds, solver="singles"
        )
        assert reference.seconds == 0.5


def test_no_instances_have_no_references():
    assert reference_costs([], Singles()) == []


def test_equal_instances_are_solved_once(instances):
    solver = Singles()
    found = reference_costs([instances[0], instances[1], instances[0]], solver)

    assert sorted(solver.asked) == ["small-4-0", "small-4-1"]
    assert found[0] == found[2]


def test_what_is_cached_is_not_solved_again(instances, cache):
    first = reference_costs(instances[:3], Singles(), cache)
    solver = Singles()
    second = reference_costs(instances, solver, cache)

    assert solver.asked == ["small-4-3", "small-4-4"]
    assert second[:3] == first


def test_without_a_cache_all_are_solved_again(instances):
    solver = Singles()
    reference_costs(instances, solver)
    reference_costs(instances, solver)

    assert len(solver.asked) == 10


def test_an_interrupted_run_resumes(instances, cache):
    with pytest.raises(KeyboardInterrupt):
        reference_costs(instances, Singles(interrupt_at="small-4-2"), cache)
    solver = Singles()
    found = reference_costs(instances, solver, cache)

    assert solver.asked == ["small-4-2", "small-4-3", "small-4-4"]
    assert len(found) == 5


def test_a_failure_keeps_what_is_done(instances, cache):
    class Careless(Singles):
        def timed(self, instance):
            routes, seconds = super().timed(instance)
            return (routes[1:] if instance.name == "small-4-3" else routes), seconds

    with pytest.raises(RuntimeError, match="small-4-3: the routes of singles are wrong"):
        reference_costs(instances, Careless(), cache)
    assert [cache.find(i, "singles") is not None for i in instances[:4]] == [True] * 3 + [False]


@pytest.mark.parametrize("jobs", [1, 2])
def test_failures_can_be_noted_instead(instances, cache, jobs):
    class Failing(Singles):
        def timed(self, instance):
            if instance.name in ("small-4-1", "small-4-3"):
                raise RuntimeError(f"{instance.name}: out of luck.")
            return super().timed(instance)

    failed = {}
    found = reference_costs(instances, Failing(), cache, jobs, failed=failed)

    assert failed == {
        instances[1].digest: "small-4-1: out of luck.",
        instances[3].digest: "small-4-3: out of luck.",
    }
    routes = [[1], [2], [3], [4]]
    assert [one.cost for one in found] == [instances[i].cost(routes) for i in (0, 2, 4)]


def test_a_missing_solver_is_no_failure_of_an_instance(instances):
    class Missing(Singles):
        def timed(self, instance):
            raise ImportError("not installed")

    with pytest.raises(ImportError, match="not installed"):
        reference_costs(instances, Missing(), failed={})


def test_an_interrupt_ends_the_programs_under_way(instances, tmp_path):
    ended = threading.Event()

    class Waiting(Singles):
        def timed(self, instance):
            if instance.name == "small-4-1":
                until((tmp_path / "begun").exists)
                raise KeyboardInterrupt
            try:
                run_program(["sh", "-c", "touch begun; sleep 120"], 120, folder=tmp_path)
            finally:
                ended.set()
            return super().timed(instance)

    with pytest.raises(KeyboardInterrupt):
        reference_costs(instances, Waiting(), jobs=2)
    assert ended.wait(60)


def test_there_must_be_a_job(instances):
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        reference_costs(instances, Singles(), jobs=0)


def test_nothing_is_shown_without_a_terminal(instances, capfd):
    reference_costs(instances, Singles())

    assert capfd.readouterr() == ("", "")


def test_jobs_do_not_share_a_solvers_time(cache):
    pytest.importorskip("hygese")
    instances = [small_instance(12, seed) for seed in range(2)]
    found = reference_costs(instances, HGS(seconds=1), cache, jobs=2)

    # In one process the CPU time of both would count for each.
    assert all(reference.seconds > 0.9 for reference in found)


def test_solvers_are_known_by_name():
    assert reference_solver("hgs") == HGS()
    assert reference_solver("hgs", seconds=2) == HGS(seconds=2)
    assert reference_solver("ortools", seconds=2) == ORTools(seconds=2)
    assert reference_solver("lkh3", 2, "a/program") == LKH3(binary="a/program", seconds=2)
    assert reference_solver("lkh3", extra_vehicles=True) == LKH3(extra_vehicles=True)


def test_an_unknown_solver_is_told_the_known_ones():
    with pytest.raises(
        ValueError, match="Unknown reference solver 'gurobi'; use one of hgs, lkh3, o"
    ):
        reference_solver("gurobi")
