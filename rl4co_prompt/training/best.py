"""Rewards of rollouts that count by their best."""

import torch

from torch import Tensor


def best_with(reward: Tensor, count: int) -> Tensor:
    """What the best of ``count`` rollouts has on average, if each rollout in turn is among them.

    In place of rewards, and less their mean, these are an unbiased estimate of the gradient of the
    expected best, for rollouts that are drawn independently.

    Args:
        reward: [..., rollout]
        count: of the rollouts that compete, the others drawn without replacement; all if fewer.
    """
    total = reward.shape[-1]
    count = min(count, total)
    if count == 1:
        return reward
    ordered, order = reward.sort(-1)
    rank = torch.arange(total, dtype=torch.float64, device=reward.device)
    every = _log_choose(rank.new_tensor(total - 1.0), count - 1)
    wins = (_log_choose(rank, count - 1) - every).exp()  # no better one among the others
    loses = (_log_choose(rank - 1, count - 2) - every).exp()  # to the rollout of that rank
    lost = (loses * ordered).flip(-1).cumsum(-1).flip(-1) - loses * ordered
    expected = (wins * ordered + lost).to(reward.dtype)
    return torch.empty_like(reward).scatter_(-1, order, expected)


def _log_choose(things: Tensor, taken: int) -> Tensor:
    """Logarithm of the number of choices; -inf where there are fewer things than are taken."""
    inside = things.clamp_min(taken)
    ways = (inside + 1).lgamma() - (inside - taken + 1).lgamma()
    ways = ways - ways.new_tensor(taken + 1.0).lgamma()
    return ways.masked_fill(things < taken, -torch.inf)
