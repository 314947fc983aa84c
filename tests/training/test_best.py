from itertools import combinations

import pytest
import torch

from rl4co_prompt.training.best import best_with


def by_counting(reward, count):
    """The mean over all sets of rollouts that the one in question is in."""
    total = len(reward)
    sets = [list(chosen) for chosen in combinations(range(total), count)]
    return torch.stack(
        [torch.stack([reward[s].max() for s in sets if i in s]).mean() for i in range(total)]
    )


@pytest.mark.parametrize("count", range(1, 8))
def test_it_is_the_mean_over_all_sets(count):
    reward = -torch.rand(3, 7, generator=torch.Generator().manual_seed(count))
    reward[0, 3] = reward[0, 5]  # a tie
    expected = torch.stack([by_counting(row, count) for row in reward])

    torch.testing.assert_close(best_with(reward, count), expected)


def test_more_than_there_are_is_all():
    reward = torch.tensor([[1.0, 3.0, 2.0]])

    assert best_with(reward, 9).tolist() == [[3.0, 3.0, 3.0]]


def test_many_rollouts_stay_finite():
    reward = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
    found = best_with(reward, 500)

    assert found.isfinite().all()
    assert (found.argsort(-1) == reward.argsort(-1))[:, -3:].all()


def test_it_leads_to_the_best_of_several():
    """Two choices: a safe one, and one that is better once in three times and else worse."""
    rewards = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 3.0 - 1e-3]])
    draw = torch.Generator().manual_seed(0)

    def advantage_of_risk(count):
        choice = torch.randint(2, (4096, 16), generator=draw)
        luck = torch.randint(3, (4096, 16), generator=draw)
        value = best_with(rewards[choice, luck], count)
        return float((value - value.mean(-1, keepdim=True))[choice == 1].mean())

    assert advantage_of_risk(1) == pytest.approx(0, abs=0.02)
    assert advantage_of_risk(4) > 0.1
