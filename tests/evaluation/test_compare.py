from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rl4co_prompt.evaluation.compare import compare, compare_rows, compare_table
from rl4co_prompt.evaluation.methods import parse_methods
from tests.evaluation.small import small_instance


class Recorder:
    """Stands in for a solver: notes its limits and solves as much as they allow."""

    def __init__(self):
        self.asked = []

    def solve(self, instance, num_prompts, augment, time_limit, seed, *, samples):
        self.asked.append((instance.name, time_limit, augment, samples))
        best = SimpleNamespace(cost=10 / time_limit)
        return SimpleNamespace(policy_best=best, rollouts=int(100 * time_limit))


def test_each_instance_gets_the_same_seconds_from_each_method(sets, pools):
    solvers = {"backbone": Recorder(), "prompt": Recorder()}
    methods = parse_methods("backbone,prompt", pools[:1])
    compare(sets[1], methods, lambda method: solvers[method.kind], seconds=(0.5, 2))
    names = [instance.name for instance in sets[1].instances]

    for solver in solvers.values():
        assert solver.asked == [(name, s, True, None) for s in (0.5, 2) for name in names]


def test_scores_are_what_the_limit_allowed(sets):
    found = compare(sets[1], parse_methods("backbone"), lambda _: Recorder(), seconds=(0.5, 2))
    (short, first), (long, second) = found

    assert (short, long) == (0.5, 2)
    assert first.costs.tolist() == [20] * 3
    assert second.costs.tolist() == [5] * 3
    assert (first.rollouts, second.rollouts) == (50, 200)


@pytest.mark.filterwarnings("ignore:The time limit ended")  # on a slow machine
def test_rows_and_table_show_the_scores(sets, solver_for):
    found = compare(sets[1], parse_methods("backbone"), solver_for, seconds=(0.02, 0.04))
    table = compare_table(found, sets[1], "1 core")

    assert table.columns == ["method", "0.02 s", "0.04 s"]
    assert [row[0] for row in table.rows] == ["backbone"]
    for (limit, score), cell, row in zip(
        found, table.rows[0][1:], compare_rows(found), strict=True
    ):
        assert cell.startswith(f"{score.mean_gap:.2f} ±")
        assert row["seconds_allowed"] == limit
        assert row["costs"] == score.costs.tolist()


def test_a_single_instance_has_no_interval(sets):
    one = replace(sets[1], instances=sets[1].instances[:1])
    found = compare(one, parse_methods("backbone"), lambda _: Recorder(), seconds=(1,))
    table = compare_table(found, one, "1 core")

    assert table.rows[0][1].startswith(f"{found[0][1].mean_gap:.2f} ±- (")


def test_an_instance_that_a_solver_fails_on_is_in_no_score(sets):
    tight = small_instance(3, 1, capacity=10, max_routes=1, reference=1)
    solver, failed = Recorder(), {}
    methods = parse_methods("hgs,backbone")
    good = replace(sets[1], instances=(small_instance(3, 0, reference=1), tight))
    found = compare(good, methods, lambda _: solver, seconds=(0.5,), failed=failed)

    assert [len(score.costs) for _, score in found] == [1, 1]
    assert list(failed) == [tight.digest]
    assert [name for name, *_ in solver.asked] == ["small-3-0"]
    with pytest.raises(RuntimeError, match="a fleet of 1"):
        compare(good, methods, lambda _: solver, seconds=(0.5,))
    bad = replace(good, instances=(tight,))
    with pytest.raises(ValueError, match="No instance of large is left to compare"):
        compare(bad, methods, lambda _: solver, seconds=(0.5,), failed={})


def test_policies_get_the_cores_and_give_them_back(sets):
    seen = []

    class Counting(Recorder):
        def solve(self, *given, **options):
            seen.append(torch.get_num_threads())
            return super().solve(*given, **options)

    before = torch.get_num_threads()
    compare(sets[1], parse_methods("backbone"), lambda _: Counting(), (1,), cores=before + 1)

    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    "options", [{"seconds": (0,)}, {"seconds": ()}, {"seconds": (1,), "cores": 0}]
)
def test_senseless_comparisons_are_refused(sets, solver_for, options):
    with pytest.raises(ValueError, match="must be"):
        compare(sets[0], parse_methods("backbone"), solver_for, **options)
