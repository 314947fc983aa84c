import numpy as np
import pytest

from rl4co_prompt.evaluation.figures import extremes, selection


def test_selection_is_the_share_of_nearest_prompts(result):
    share = selection(result, "prompt-top3 (two)")
    solutions = result.solutions["prompt-top3 (two)", "small"]
    first = solutions[0].attempts[0].prompt

    assert share.sum(1) == pytest.approx([1, 1])
    assert share[0, first] == np.mean([s.attempts[0].prompt == first for s in solutions])


def test_extremes_are_the_best_and_the_worst(result):
    name, best, worst = extremes(result, count=2)

    assert name.endswith(" x8")
    assert best[0].gap <= best[1].gap <= worst[1].gap <= worst[0].gap
