import math

from dataclasses import replace

import numpy as np
import pytest

from rl4co_prompt import Solver, Task
from rl4co_prompt.evaluation.evaluate import Score, SolverOptions, add_references, evaluate
from rl4co_prompt.evaluation.lkh import LKH3
from rl4co_prompt.evaluation.methods import parse_methods
from rl4co_prompt.evaluation.suites import InstanceSet, generated_set
from tests.evaluation.small import small_instance


def test_rows_are_what_the_policy_finds_with_that_budget(result, sets, pools, backbone):
    alone = Solver(backbone)
    prompted = Solver.from_pretrained(backbone, pools[0])
    expected = {
        "backbone": alone.solve(list(sets[0].instances), 1, False),
        "backbone x8": alone.solve(list(sets[0].instances), 1, True),
        "prompt (two)": prompted.solve(list(sets[0].instances), 1, False),
        "prompt-top3 (two)": prompted.solve(list(sets[0].instances), 3, False),
        "prompt-top3 (two) x8": prompted.solve(list(sets[0].instances), 3, True),
    }
    for name, solutions in expected.items():
        score = result.score(name, "small")
        assert score.costs.tolist() == pytest.approx([s.policy_best.cost for s in solutions])
        assert score.rollouts == np.mean([s.rollouts for s in solutions])


def test_a_row_stands_for_each_method_without_and_with_copies(result):
    plain = ["backbone", "prompt (two)", "prompt-top3 (two)", "prompt (one)", "prompt-top3 (one)"]

    assert sorted(result.names()[:5]) == sorted(plain)
    assert sorted(result.names()[5:]) == sorted(f"{name} x8" for name in plain)


def test_copies_and_prompts_never_make_a_row_worse(result):
    for one in result.sets:
        costs = {name: result.score(name, one.name).costs for name in result.names()}
        assert (costs["prompt-top3 (two)"] <= costs["prompt (two)"]).all()
        assert all((costs[f"{n} x8"] <= costs[n]).all() for n in costs if not n.endswith("x8"))


def test_means_and_interval_are_the_textbooks():
    score = Score("m", False, "s", np.array([11.0, 24.0]), np.array([10.0, 20.0]), 0.1, 5)

    assert score.gaps == pytest.approx([10, 20])
    assert score.mean_gap == pytest.approx(15)
    assert score.gap_of_means == pytest.approx(100 * (35 / 30 - 1))
    assert score.interval == pytest.approx(12.706 * np.std([10, 20], ddof=1) / 2**0.5, rel=1e-4)
    assert math.isnan(
        replace(score, costs=score.costs[:1], references=score.references[:1]).interval
    )


def test_the_average_is_over_instances_and_its_interval_within_sets(result):
    parts = [result.score("backbone", one.name) for one in result.sets]
    average = result.average("backbone")
    gaps = np.concatenate([part.gaps for part in parts])
    error = math.sqrt(sum(len(p.gaps) * p.gaps.var(ddof=1) for p in parts)) / len(gaps)

    assert average.mean_gap == pytest.approx(gaps.mean())
    assert average.interval == pytest.approx(2.4469 * error, rel=1e-4)  # Student's t, 8 - 2


def test_equal_budget_rows_fill_up_with_samples(sets, solver_for):
    methods = parse_methods("backbone@10,backbone")
    result = evaluate("s", sets[:1], methods, solver_for, augment=True)

    assert result.score("backbone@10", "small").rollouts == 10 * 8
    assert result.score("backbone@10 x8", "small").rollouts == 10 * 8
    for copies in ("", " x8"):
        long, short = (
            result.score(f"{name}{copies}", "small").costs for name in ("backbone@10", "backbone")
        )
        assert (long <= short).all()


def test_a_budget_below_the_copies_is_told(sets, solver_for):
    with pytest.raises(ValueError, match="backbone@4 has fewer passes than the 8 copies"):
        evaluate("s", sets, parse_methods("backbone@4"), solver_for, augment=True)


def test_solvers_are_rows_and_references(solver_for, tmp_path):
    pytest.importorskip("hygese")
    bare = generated_set("bare", Task(6), 2, seed=0)
    options = SolverOptions(seconds=0.05, cache=tmp_path / "cache.sqlite")
    known = add_references([bare], "hgs", options)
    result = evaluate("s", known, parse_methods("hgs,backbone"), solver_for, options=options)

    assert known[0].reference_source == "hgs, 0.05 s"
    assert result.score("hgs", "bare").mean_gap == pytest.approx(0, abs=1e-9)
    assert result.score("backbone", "bare").mean_gap >= -1e-9
    assert math.isnan(result.score("hgs", "bare").rollouts)


@pytest.fixture
def mixed():
    """A good instance, one whose fleet is too small, and one that costs nothing."""
    good, tight = small_instance(3, 0), small_instance(3, 1, capacity=10, max_routes=1)
    still = replace(small_instance(3, 2), coordinates=np.zeros((4, 2)))
    return InstanceSet("mixed", "mixed", (good, tight, still), "here")


def test_instances_without_a_reference_are_left_out_and_named(mixed, solver_for, tmp_path):
    options = SolverOptions(seconds=0.05, cache=tmp_path / "cache.sqlite")
    with pytest.warns(UserWarning, match="left out of mixed") as told:
        known = add_references([mixed], "hgs", options)
    result = evaluate("s", known, parse_methods("backbone"), solver_for)

    assert [str(one.message).split(" is left out")[0] for one in told] == ["small-3-1", "small-3-2"]
    assert [i.name for i in result.sets[0].instances] == ["small-3-0"]
    assert [row[:2] for row in result.left_out] == [("mixed", "small-3-1"), ("mixed", "small-3-2")]
    assert "a fleet of 1 can't hold its demand" in result.left_out[0][2]
    assert "its best cost is 0" in result.left_out[1][2]


@pytest.mark.parametrize("methods", ["hgs,backbone", "backbone,hgs"])
def test_what_a_solver_fails_on_is_left_out_of_every_row(mixed, methods, solver_for, tmp_path):
    options = SolverOptions(seconds=0.05, cache=tmp_path / "cache.sqlite")
    with pytest.warns(UserWarning, match="small-3-1 is left out of mixed: a fleet of 1"):
        result = evaluate("s", [mixed], parse_methods(methods), solver_for, options=options)

    assert [len(score.costs) for score in result.scores] == [2, 2]
    assert result.names() == methods.split(",")


def test_a_set_without_a_good_instance_is_left_out(mixed, solver_for, sets, tmp_path):
    options = SolverOptions(seconds=0.05, cache=tmp_path / "cache.sqlite")
    bad = replace(mixed, instances=mixed.instances[1:2])
    with pytest.warns(UserWarning, match="small-3-1"):
        known = add_references([bad, sets[0]], "hgs", options)
    result = evaluate("s", known, parse_methods("backbone"), solver_for)

    assert [one.name for one in result.sets] == ["small"]
    assert result.left_out[0][:2] == ("mixed", "small-3-1")
    with pytest.raises(ValueError, match="No instance is left to evaluate"):
        evaluate("s", known[:1], parse_methods("backbone"), solver_for)


def test_options_reach_the_solver():
    options = SolverOptions(2, binary="a/program", extra_vehicles=True)

    assert options.solver("lkh3") == LKH3("a/program", 2, extra_vehicles=True)
