"""PointerModel: what a stock decoder needs to know of its instances, computed once per rollout."""

import math

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from rl4co.envs import CVRPEnv, RL4COEnvBase, TSPEnv
from rl4co.models.nn.attention import (
    PointerAttention,
    scaled_dot_product_attention,
    scaled_dot_product_attention_simple,
)
from rl4co.models.nn.env_embeddings.context import TSPContext, VRPContext
from rl4co.models.nn.env_embeddings.dynamic import StaticEmbedding
from rl4co.models.zoo.am.decoder import AttentionModelDecoder
from tensordict import TensorDict
from torch import Tensor, nn

TOLERANCE = 1e-5  # of RL4CO's capacity test
_WEIGHTS = ("query", "key", "value", "pointer", "bias", "first", "slope")
_STEPPING = ("step", "_step", "get_action_mask", "_get_reward", "get_reward")
_DECODING = ("forward", "pre_decoder_hook", "_precompute_cache", "_compute_q", "_compute_kvl")
_ATTENTION = (scaled_dot_product_attention, scaled_dot_product_attention_simple)
_POINTING = ("forward", "_inner_mha", "_make_heads", "_project_out")


@dataclass
class PointerModel:
    """The decoder's weights applied to the nodes.

    Queries are linear in the state, so each is a sum of rows; the output projection acts on the
    pointer's keys instead of the glimpses; scales are inside.

    Args:
        query: [batch, node, embed] by current node. TSP has one row more, of the empty tour.
        key, value, pointer: [batch, node, embed].
        bias: [batch, node] of the logits.
        first: [batch, node + 1, embed], the first node's part of the query; the last row, of
            the empty tour, is 0 (TSP).
        slope: [batch, embed], the query per unit of room left (CVRP).
        demand: [batch, node], 0 at the depot (CVRP).
        capacity: [batch] (CVRP).
        heads: of the glimpse attention.
        mask_inner: hide masked nodes from the glimpse, too.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    pointer: Tensor
    bias: Tensor
    first: Tensor | None
    slope: Tensor | None
    demand: Tensor | None
    capacity: Tensor | None
    heads: int
    mask_inner: bool

    @property
    def has_depot(self) -> bool:
        return self.demand is not None

    @property
    def longest(self) -> int:
        """Steps of the longest tour: every customer in a route of its own."""
        nodes = self.key.shape[1]
        return 2 * nodes if self.has_depot else nodes

    def weights(self) -> list[Tensor | None]:
        """What gradients are taken by."""
        return [getattr(self, name) for name in _WEIGHTS]

    def with_weights(self, weights: list[Tensor | None]) -> "PointerModel":
        return replace(self, **dict(zip(_WEIGHTS, weights, strict=True)))  # type: ignore[arg-type]

    def __getitem__(self, rows: slice) -> "PointerModel":
        """Some of the instances."""
        tensors = {k: v[rows] for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **tensors)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.key)


def why_not_lean(env: RL4COEnvBase, decoder: nn.Module) -> str | None:
    """What keeps an environment and a decoder from the lean path, or None."""
    base = next((base for base in (CVRPEnv, TSPEnv) if isinstance(env, base)), None)
    if base is None or not same_methods(env, base, _STEPPING):
        return f"{type(env).__name__} does not step as RL4CO's CVRPEnv or TSPEnv"
    if not isinstance(decoder, AttentionModelDecoder) or not same_methods(
        decoder, AttentionModelDecoder, _DECODING
    ):
        return f"{type(decoder).__name__} does not decode as RL4CO's AttentionModelDecoder"
    if not same_methods(decoder.pointer, PointerAttention, _POINTING):
        return f"{type(decoder.pointer).__name__} is not RL4CO's PointerAttention"
    if decoder.pointer.sdpa_fn not in _ATTENTION:
        return "the decoder has an attention function of its own"
    if any(module._forward_hooks or module._forward_pre_hooks for module in decoder.modules()):
        return "the decoder has hooks"
    if decoder.is_dynamic_embedding or type(decoder.dynamic_embedding) is not StaticEmbedding:
        return f"{type(decoder.dynamic_embedding).__name__} changes the nodes in every step"
    context = VRPContext if base is CVRPEnv else TSPContext
    if type(decoder.context_embedding) is not context:
        return f"{type(decoder.context_embedding).__name__} is not RL4CO's {context.__name__}"
    for layer in (decoder.pointer.project_out, decoder.context_embedding.project_context):
        if type(layer) is not nn.Linear:
            return f"the decoder projects by a {type(layer).__name__} instead of a Linear"
    return None


def at_start(env: RL4COEnvBase, td: TensorDict) -> bool:
    """Whether instances of RL4CO's CVRP or TSP are in the state of their reset."""
    if not isinstance(env, CVRPEnv):
        return bool(td["action_mask"].all() & ~td["i"].any())
    moved = td["visited"].any() | td["used_capacity"].any() | td["current_node"].any()
    fresh = (env.get_action_mask(td) == td["action_mask"]).all()
    return bool(fresh & ~moved)


def pointer_model(
    decoder: AttentionModelDecoder, hidden: Tensor, td: TensorDict, chooses: bool = True
) -> PointerModel:
    """Apply a decoder to encoded nodes; differentiable by both.

    Args:
        chooses: whether the policy will choose the first node itself.
    """
    cache = decoder._precompute_cache(hidden)
    embed, heads = hidden.shape[-1], decoder.num_heads
    scale = 1 / math.sqrt(embed // heads)
    context = decoder.context_embedding.project_context
    fixed = cache.graph_context if isinstance(cache.graph_context, Tensor) else hidden.new_zeros(1)
    if context.bias is not None:
        fixed = fixed + context.bias
    fixed = fixed.unsqueeze(-2) if fixed.ndim > 1 else fixed  # the same for all nodes
    first = slope = demand = capacity = None
    if isinstance(decoder.context_embedding, TSPContext):
        first = scale * F.pad(hidden @ context.weight[:, :embed].T, (0, 0, 0, 1))
        by_current = hidden @ context.weight[:, embed:].T
        empty = context.weight @ decoder.context_embedding.W_placeholder
        empty = empty if chooses else empty.detach()  # else no gradient, instead of a zero one
        query = torch.cat((by_current, empty.expand(len(hidden), 1, embed)), 1) + fixed
    else:
        query = hidden @ context.weight[:, :embed].T + fixed
        slope = scale * context.weight[:, embed].expand(len(hidden), embed)
        demand = F.pad(td["demand"], (1, 0))
        capacity = td["vehicle_capacity"].squeeze(-1)
    out, down = decoder.pointer.project_out, 1 / math.sqrt(embed)
    bias = hidden.new_zeros(hidden.shape[:2]) if out.bias is None else cache.logit_key @ out.bias
    return PointerModel(
        query=scale * query,
        key=cache.glimpse_key,
        value=cache.glimpse_val,
        pointer=down * (cache.logit_key @ out.weight),
        bias=down * bias,
        first=first,
        slope=slope,
        demand=demand,
        capacity=capacity,
        heads=heads,
        mask_inner=decoder.pointer.mask_inner,
    )


def same_methods(thing: object, base: type, methods: tuple[str, ...]) -> bool:
    """Whether an object is a ``base`` that overrides none of these methods."""
    return isinstance(thing, base) and all(
        getattr(type(thing), name, None) is getattr(base, name, None) and name not in vars(thing)
        for name in methods
    )
