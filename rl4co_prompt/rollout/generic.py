"""The generic path: any RL4CO environment, stepped as RL4CO does, without its copies.

The rollouts of an instance lie side by side, [batch * start], so that [batch, start] is a view;
keys and values are shared by them, or repeated once where an environment changes them. Node
embeddings are repeated, too, where a context can't read them otherwise.
"""

import math

from dataclasses import replace
from typing import Any

import torch

from rl4co.envs import RL4COEnvBase
from rl4co.models.nn.attention import PointerAttention, PointerAttnMoE
from rl4co.models.zoo.am.decoder import AttentionModelDecoder, PrecomputedCache
from rl4co.utils.decoding import (
    modify_logits_for_top_k_filtering,
    modify_logits_for_top_p_filtering,
)
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.rollout import noise
from rl4co_prompt.rollout.contexts import takes_grid
from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.faults import NO_LIMIT, check_tours, never_done
from rl4co_prompt.rollout.lean import choose
from rl4co_prompt.rollout.pointer import same_methods

STEPS_PER_NODE = 20  # an environment that takes more is taken to be stuck
_DECODING = ("forward", "pre_decoder_hook", "_precompute_cache", "_compute_q", "_compute_kvl")


def why_not_generic(decoder: Any) -> str | None:
    """What keeps a decoder from the generic path, or None."""
    if not same_methods(decoder, AttentionModelDecoder, _DECODING):
        return f"{type(decoder).__name__} does not decode as RL4CO's AttentionModelDecoder"
    if type(decoder.pointer) not in (PointerAttention, PointerAttnMoE):
        return f"{type(decoder.pointer).__name__} is none of RL4CO's pointers"
    if any(part._forward_hooks or part._forward_pre_hooks for part in (decoder, decoder.pointer)):
        return "the decoder has hooks"
    return None


class Walk:
    """Rollouts in an environment.

    Args:
        td: reset instances, [batch].
        count: rollouts of each.
        starts: [batch, start] first nodes, or None.
    """

    def __init__(self, env: RL4COEnvBase, td: TensorDict, count: int, starts: Tensor | None):
        self.env, self.shape = env, (*td.batch_size, count)
        self.td = td.unsqueeze(1).expand(*self.shape).clone().reshape(-1)
        if starts is not None:
            self.move(starts)

    def move(self, action: Tensor) -> None:
        """[batch, start]"""
        self.td.set("action", action.reshape(-1))
        self.td = self.env.step(self.td)["next"]

    def done(self) -> Tensor:
        return self.td["done"].all()


class Cache:
    """RL4CO's cache of a decoder, used without copying it in every step."""

    def __init__(self, decoder: AttentionModelDecoder, cache: PrecomputedCache, count: int):
        self.decoder, self.cache = decoder, cache
        self.dynamic = decoder.is_dynamic_embedding
        grid = self.dynamic or takes_grid(decoder, len(cache.node_embeddings), count)
        self.rows = None if grid else _with_nodes_repeated(cache, count)
        if self.dynamic and count > 1:  # what an environment changes, each rollout has of its own
            self.cache = PrecomputedCache(*(_repeated(x, count) for x in cache.fields))
        self.pointer_key = cache.logit_key.transpose(1, 2) / math.sqrt(cache.logit_key.shape[-1])

    def logits(self, walk: Walk) -> tuple[Tensor, Tensor]:
        """Logits and mask, [batch * start, node]."""
        decoder, cache, td = self.decoder, self.cache, walk.td
        if self.dynamic:
            return decoder(td, cache)
        query, mask = self._query(walk), td["action_mask"]
        if walk.shape[1] > 1:
            mask = mask.view(*walk.shape, -1)
        pointer, key, value = decoder.pointer, cache.glimpse_key, cache.glimpse_val
        if type(pointer) is PointerAttention:  # its forward pass, but for a test that waits
            glimpse = pointer._project_out(pointer._inner_mha(query, key, value, mask), mask)
            logits = torch.bmm(glimpse, self.pointer_key)
        else:
            logits = pointer(query, key, value, cache.logit_key, mask)
        return logits.reshape(len(td), -1), mask.reshape(len(td), -1)

    def _query(self, walk: Walk) -> Tensor:
        """[batch, start, embed]"""
        td, shape = walk.td, walk.shape
        if self.rows is None:
            return self.decoder._compute_q(self.cache, td.view(*shape) if shape[1] > 1 else td)
        if len(td) > 1:
            return self.decoder._compute_q(self.rows, td).view(*shape, -1)
        twice = _with_nodes_repeated(self.rows, 2)  # contexts that squeeze need two rows
        return self.decoder._compute_q(twice, torch.cat((td, td)))[:1]


def _with_nodes_repeated(cache: PrecomputedCache, count: int) -> PrecomputedCache:
    """What queries read, a row for each rollout; keys and values stay shared."""
    nodes, context = (_repeated(x, count) for x in (cache.node_embeddings, cache.graph_context))
    return replace(cache, node_embeddings=nodes, graph_context=context)


def _repeated(x: Any, count: int) -> Any:
    return x.repeat_interleave(count, 0) if isinstance(x, Tensor) else x


def log_probs_of(logits: Tensor, mask: Tensor, decoding: Decoding) -> Tensor:
    """RL4CO's treatment of logits."""
    if decoding.clip > 0:
        logits = torch.tanh(logits) * decoding.clip
    logits = logits.masked_fill(~mask, -torch.inf)
    if decoding.temperature != 1:
        logits = logits / decoding.temperature
    if decoding.top_k > 0:
        logits = modify_logits_for_top_k_filtering(logits, min(decoding.top_k, logits.shape[-1]))
    if decoding.top_p > 0:
        logits = modify_logits_for_top_p_filtering(logits, decoding.top_p)
    return logits.log_softmax(-1)


def tours(
    cache: Cache,
    walk: Walk,
    starts: Tensor | None,
    states: Tensor | None,
    decoding: Decoding,
    max_steps: int,
) -> tuple[Tensor, Tensor]:
    """Roll out to the end. -> actions, log-probabilities [batch, start, step]

    Args:
        starts: [batch, start], the moves that the walk has made already.
        states: [batch, start] of the random numbers; None for greedy decoding.
    """
    actions = [] if starts is None else [starts]
    log_probs = [] if starts is None else [torch.zeros_like(starts, dtype=torch.float)]
    limit = max_steps
    if limit == NO_LIMIT:
        limit = STEPS_PER_NODE * walk.td["action_mask"].shape[-1] + 100
    while not bool(walk.done()):
        step = len(actions)
        if step >= limit:
            raise never_done(walk.env, step)
        all_log_probs = log_probs_of(*cache.logits(walk), decoding)
        numbers = None
        if states is not None:
            numbers = noise.uniform(states, step, step + 1).reshape(-1)
        log_prob, action = choose(all_log_probs, numbers)
        check_tours(False, bool(log_prob.isnan().any()))
        walk.move(action)
        actions.append(action.view(walk.shape))
        log_probs.append(log_prob.view(walk.shape))
    if not actions:
        raise ValueError("All instances are done before the first step; reset them first.")
    return torch.stack(actions, -1), torch.stack(log_probs, -1)
