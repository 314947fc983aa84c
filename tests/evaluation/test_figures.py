import numpy as np
import pytest

from matplotlib.figure import Figure

from rl4co_prompt.evaluation.evaluate import evaluate
from rl4co_prompt.evaluation.figures import budget_curves, extremes, plot_budget, selection
from rl4co_prompt.evaluation.methods import parse_methods


def test_selection_is_the_share_of_nearest_prompts(result):
    share = selection(result, "prompt-top3 (two)")
    solutions = result.solutions["prompt-top3 (two)", "small"]
    first = solutions[0].attempts[0].prompt

    assert share.shape == (2, 4)  # the pool's size, however few are near
    assert share.sum(1) == pytest.approx([1, 1])
    assert share[0, first] == np.mean([s.attempts[0].prompt == first for s in solutions])


def test_extremes_are_the_best_and_the_worst(result):
    name, best, worst = extremes(result, count=2)

    assert name.endswith(" x8")
    assert best[0].gap <= best[1].gap <= worst[1].gap <= worst[0].gap


def test_a_curve_is_not_hidden_by_a_longer_one(sets, solver_for):
    result = evaluate("s", sets, parse_methods("backbone,backbone@4"), solver_for)
    ax = plot_budget(Figure().add_subplot(), result)
    lines = {line.get_label(): line for line in ax.lines}

    assert lines["backbone"].get_ydata()[0] == pytest.approx(lines["backbone@4"].get_ydata()[0])
    assert lines["backbone"].get_zorder() > lines["backbone@4"].get_zorder()
    assert lines["backbone"].get_markersize() < lines["backbone@4"].get_markersize()


def test_budget_curves_are_the_best_gap_after_each_pass(result):
    rollouts, gaps = budget_curves(result)["prompt-top3 (two)"]

    assert len(gaps) == 3 * 8
    assert (np.diff(gaps) <= 1e-9).all()
    assert gaps[-1] == pytest.approx(result.average("prompt-top3 (two) x8").mean_gap)
    assert rollouts[-1] == pytest.approx(result.average("prompt-top3 (two) x8").rollouts)
