"""Start sets: the first nodes of POMO's rollouts, for any of RL4CO's environments.

RL4CO has a rule by name, which for some problems repeats a node, forbids none or draws at random.
Here the reset state tells: an instance's starts are the nodes that its mask allows, all of them
and in order, without the depot where there is another.
"""

from typing import Any

import torch

from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict
from torch import Tensor

ROLLOUTS = ("auto", "starts", "samples")


def count_starts(td: TensorDict) -> int:
    """The most starts that a reset instance of the batch has."""
    return int(_allowed(td).sum(-1).max())


def select_starts(td: TensorDict, env: RL4COEnvBase | None, num_starts: int) -> Tensor:
    """RL4CO's ``select_start_nodes_fn``. -> [start * batch]

    An instance with fewer starts than asked for takes them in turn.
    """
    allowed = _allowed(td)
    order = allowed.int().argsort(dim=-1, descending=True, stable=True)
    turn = torch.arange(num_starts, device=order.device) % allowed.sum(-1, keepdim=True)
    return order.gather(1, turn).T.reshape(-1)


def rollout_options(
    td: TensorDict, number: int | None = None, rollouts: str = "auto"
) -> dict[str, Any]:
    """Options of a policy that ask for several rollouts of each reset instance.

    Args:
        number: of rollouts; by default one from each start, or one for each node.
        rollouts: ``starts``, POMO's; ``samples``, whose first node the policy draws, too; ``auto``
            takes starts wherever an instance has two.
    """
    count = count_starts(td)
    if rollouts == "starts" or (rollouts == "auto" and count > 1):
        number = max(2, count) if number is None else number
        return {"num_starts": number, "select_start_nodes_fn": select_starts}
    number = max(2, td["action_mask"].shape[-1]) if number is None else number
    return {"num_samples": number, "decode_type": "sampling"}


def with_starts(td: TensorDict, options: dict[str, Any], usual: str) -> dict[str, Any]:
    """A policy's options, and where they ask for starts without saying which, these.

    Args:
        usual: the decode type where the options have none.
    """
    number, given = options.get("num_starts"), options.get("actions") is not None
    asked = "multistart" in (options.get("decode_type") or usual) or options.get("multistart")
    asked = (asked and not given) if number is None else number > 1
    if not asked or options.get("select_start_nodes_fn") is not None:
        return options
    number = count_starts(td) if number is None else number
    return options | {"num_starts": number, "select_start_nodes_fn": select_starts}


def _allowed(td: TensorDict) -> Tensor:
    """[batch, node]; every instance has at least one."""
    allowed: Tensor = td["action_mask"].clone()
    depot = td.get("depot", None)
    if depot is not None and depot.ndim == 2:  # a single depot is node 0
        allowed[:, 0] &= ~allowed[:, 1:].any(-1)
    if not bool(allowed.any(-1).all()):
        raise ValueError("An instance allows no first node at all; reset the instances first.")
    return allowed
