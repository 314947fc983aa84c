"""Decoding: how the next node is chosen, read from RL4CO's options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict
from torch import Tensor

_STARTS = {"num_starts", "num_samples", "multistart", "multisample", "select_start_nodes_fn"}
_CHOICE = {"decode_type", "temperature", "tanh_clipping", "top_p", "top_k"}
_TYPES = ("greedy", "sampling", "multistart_greedy", "multistart_sampling")


@dataclass(frozen=True)
class Decoding:
    """How logits become a choice.

    Args:
        sampling: draw from the distribution; else the most probable node.
        clip: of the tanh, 0 for none.
        temperature: that logits are divided by.
        top_p, top_k: RL4CO's filters of the distribution, 0 for none.
    """

    sampling: bool
    clip: float = 0.0
    temperature: float = 1.0
    top_p: float = 0.0
    top_k: int = 0


@dataclass(frozen=True)
class Request:
    """What rollouts a call asks for.

    Args:
        decoding: of all of them.
        several: whether there is an axis of starts in the result.
        forced: whether the environment chooses first nodes (POMO's starts).
        number: of rollouts per instance; the environment's number of starts if None.
        select: RL4CO's ``select_start_nodes_fn``, instead of the environment's.
    """

    decoding: Decoding
    several: bool
    forced: bool
    number: int | None = None
    select: Callable[[TensorDict, RL4COEnvBase, int], Tensor] | None = None

    def count(self, td: TensorDict, env: RL4COEnvBase) -> int:
        """Rollouts per instance."""
        if not self.several:
            return 1
        return env.get_num_starts(td) if self.number is None else self.number

    def starts(self, td: TensorDict, env: RL4COEnvBase, count: int) -> Tensor | None:
        """First nodes [batch, start], or None where the policy chooses them."""
        if not self.forced:
            return None
        if self.select is not None:
            nodes = self.select(td, env, count)
        else:
            nodes = env.select_start_nodes(td, num_starts=count)
        size = td["action_mask"].shape[-1]
        if nodes.numel() != len(td) * count:
            raise ValueError(
                f"Got {nodes.numel()} start nodes for {count} starts of {len(td)} instances each."
            )
        outside = (nodes < 0) | (nodes >= size)
        if bool(outside.any()):
            raise ValueError(
                f"{type(env).__name__} starts at node {int(nodes[outside][0])} of instances with "
                f"{size} nodes; give it a generator of their size, or fewer num_starts."
            )
        return nodes.reshape(count, -1).T.contiguous()  # RL4CO's rows are (start batch)


def read_request(policy: Any, phase: str, options: dict[str, Any]) -> Request | str:
    """RL4CO's decoding options, or what in them only RL4CO's own loop can do."""
    options = {key: value for key, value in options.items() if value is not None}
    if not options.pop("mask_logits", policy.mask_logits):
        return "mask_logits=False"
    for name in ("select_best", "store_all_logp", "improvement_method_mode"):
        if options.pop(name, False):
            return f"{name}=True"
    others = sorted(set(options) - _STARTS - _CHOICE)
    if others:
        return ", ".join(others)
    decode_type = options.get("decode_type", getattr(policy, f"{phase}_decode_type"))
    if decode_type not in _TYPES:
        return f"decode_type={decode_type!r}"
    decoding = Decoding(
        sampling="sampling" in decode_type,
        clip=options.get("tanh_clipping", policy.tanh_clipping),
        temperature=options.get("temperature", policy.temperature),
        top_p=options.get("top_p", 0.0),
        top_k=options.get("top_k", 0),
    )
    starts, samples = options.get("num_starts"), options.get("num_samples")
    forced = options.get("multistart", False) or "multistart" in decode_type
    forced = forced if starts is None else starts > 1
    sampled = options.get("multisample", False) if samples is None else samples > 1
    if forced and sampled:
        return "num_starts together with num_samples"
    return Request(
        decoding=decoding,
        several=forced or sampled,
        forced=forced,
        number=starts if forced else samples,
        select=options.get("select_start_nodes_fn"),
    )
