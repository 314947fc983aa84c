"""Gradients of recorded tours, recomputed piece by piece in bounded memory.

Rollouts record no graph. When a loss asks for the gradient of their log-likelihoods, the decoder
runs again along the recorded tours, a chunk of steps at a time, and the chunks' gradients add up
on the decoder's inputs; the encoder's graph, which is small, then takes them further. The result
is POMO's gradient.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.am.decoder import AttentionModelDecoder, PrecomputedCache
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.rollout import compiled, generic, lean
from rl4co_prompt.rollout.budget import chunk_sizes
from rl4co_prompt.rollout.contexts import takes_grid
from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.pointer import PointerModel


@dataclass
class Tours:
    """Recorded rollouts.

    Args:
        actions: [batch, start, step]
        log_probs: [batch, start, step], 0 for a first node that the policy did not choose.
        chooses: whether the policy chose the first node.
    """

    actions: Tensor
    log_probs: Tensor
    chooses: bool


class Replay(Protocol):
    """Knows how to take the gradient of tours."""

    def gradients(
        self, inputs: Sequence[Tensor], tours: Tours, weights: Tensor
    ) -> Sequence[Tensor | None]:
        """Of the weighted log-probabilities, by the inputs."""


class _Recorded(torch.autograd.Function):
    """Log-probabilities that were recorded, with the gradient of a replay."""

    @staticmethod
    def forward(ctx: Any, replay: Replay, tours: Tours, subset: Tensor | None, *inputs: Tensor):
        ctx.replay, ctx.tours, ctx.subset = replay, tours, subset
        ctx.save_for_backward(*inputs)
        return tours.log_probs.clone()

    @staticmethod
    def backward(ctx: Any, weights: Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "A replay has no second derivative; use engine='stock' with create_graph=True."
            )
        tours = ctx.tours
        # A choice without an alternative, such as waiting at the depot, has no gradient.
        weights = weights.masked_fill(tours.log_probs == 0, 0)
        if ctx.subset is not None:
            starts = weights.shape[1]
            index = ctx.subset[..., None].expand(-1, -1, weights.shape[2])
            weights = weights.gather(1, index) * (starts / index.shape[1])
            actions, log_probs = (x.gather(1, index) for x in (tours.actions, tours.log_probs))
            tours = Tours(actions, log_probs, tours.chooses)
        device = weights.device.type
        with torch.autocast(device, enabled=False):
            found = ctx.replay.gradients(ctx.saved_tensors, tours, weights)
        return None, None, None, *found


def attach(
    replay: Replay, tours: Tours, inputs: Sequence[Tensor], starts_per_update: int | None = None
) -> Tensor:
    """The tours' log-probabilities as differentiable functions of the inputs.

    Args:
        starts_per_update: take the gradient from so many random tours of each instance, weighted
            such that its mean is that of all.
    """
    subset = None
    batch, starts, _ = tours.actions.shape
    if starts_per_update is not None and starts_per_update < starts:
        draw = torch.rand(batch, starts, device=tours.actions.device)
        subset = draw.topk(starts_per_update).indices
    return _Recorded.apply(replay, tours, subset, *inputs)


@dataclass
class LeanReplay:
    """For CVRP and TSP: attention over starts x steps, or the compiled kernel.

    Args:
        model: the decoder on its instances.
        budget: bytes that the chunks may take.
    """

    model: PointerModel
    decoding: Decoding
    budget: float
    kernel: bool

    def inputs(self) -> list[Tensor]:
        return [weight for weight in self.model.weights() if weight is not None]

    def gradients(self, inputs: Sequence[Tensor], tours: Tours, weights: Tensor) -> list[Tensor]:
        model = self._with(inputs)
        if self.kernel:
            by = compiled.gradients(model, tours.actions, weights, tours.chooses, self.decoding)
            return [gradient for gradient in by if gradient is not None]
        totals = [torch.zeros_like(x) for x in inputs]
        instances, steps = self._chunk(tours.actions)
        for rows in _slices(len(model), instances):
            leaves = [x[rows].detach().requires_grad_() for x in inputs]
            part = self._with(leaves, rows)
            walk = lean.Walk(part, tours.actions.shape[1])
            chunks = (x[rows].split(steps, -1) for x in (tours.actions, weights))
            for actions, weight in zip(*chunks, strict=True):
                with torch.enable_grad():
                    log_probs = lean.log_probs_of(
                        lean.Heads(part), walk, actions, tours.chooses, self.decoding
                    )
                    found = torch.autograd.grad((log_probs * weight).sum(), leaves)
                for total, gradient in zip(totals, found, strict=True):
                    total[rows] += gradient
        return totals

    def _with(self, inputs: Sequence[Tensor], rows: slice = slice(None)) -> PointerModel:
        given = iter(inputs)
        weights = [None if weight is None else next(given) for weight in self.model.weights()]
        return self.model[rows].with_weights(weights)

    def _chunk(self, actions: Tensor) -> tuple[int, int]:
        """Instances and steps at once."""
        batch, starts, steps = actions.shape
        nodes, width = self.model.key.shape[1:]
        per_step = 4 * starts * (10 * nodes + 10 * width)
        return chunk_sizes(batch, steps, 4 * 12 * nodes * width, per_step, self.budget)


@dataclass
class GenericReplay:
    """For any environment: stepped again along the tours.

    Args:
        td: the reset instances.
        cache: RL4CO's, whose tensors are inputs beside the decoder's parameters.
        budget: bytes that the chunks may take.
    """

    env: RL4COEnvBase
    decoder: AttentionModelDecoder
    td: TensorDict
    cache: PrecomputedCache
    decoding: Decoding
    budget: float

    def inputs(self) -> list[Tensor]:
        parameters = [p for p in self.decoder.parameters() if p.requires_grad]
        return [*_tensors(self.cache), *parameters]

    def gradients(
        self, inputs: Sequence[Tensor], tours: Tours, weights: Tensor
    ) -> list[Tensor | None]:
        cached = len(_tensors(self.cache))
        parameters = [p for p in self.decoder.parameters() if p.requires_grad]
        totals: list[Tensor | None] = [None] * len(inputs)
        instances, steps = self._chunk(tours.actions)
        for rows in _slices(len(self.td), instances):
            leaves = [x[rows].detach().requires_grad_() for x in inputs[:cached]]
            for objective in self._objectives(leaves, tours, weights, rows, steps):
                found = torch.autograd.grad(objective, [*leaves, *parameters], allow_unused=True)
                for i, (whole, gradient) in enumerate(zip(inputs, found, strict=True)):
                    if gradient is None:
                        continue
                    total = totals[i]
                    total = torch.zeros_like(whole) if total is None else total
                    total[rows if i < cached else slice(None)] += gradient
                    totals[i] = total
        return totals

    def _objectives(
        self, leaves: list[Tensor], tours: Tours, weights: Tensor, rows: slice, steps: int
    ) -> Iterator[Tensor]:
        """The weighted log-probabilities of every chunk of steps."""
        actions, weights = tours.actions[rows], weights[rows]
        begin = 0 if tours.chooses else 1
        starts = None if tours.chooses else actions[..., 0]
        walk = generic.Walk(self.env, self.td[rows], actions.shape[1], starts)
        last = actions.shape[-1]
        for low in range(begin, last, steps):
            with torch.enable_grad():
                cache = generic.Cache(self.decoder, _with(self.cache, leaves), actions.shape[1])
                terms = []
                for t in range(low, min(low + steps, last)):
                    logits, mask = cache.logits(walk)
                    log_probs = generic.log_probs_of(logits, mask, self.decoding)
                    action = actions[..., t].reshape(-1, 1)
                    chosen = log_probs.gather(-1, action)[:, 0]
                    terms.append((chosen * weights[..., t].reshape(-1)).sum())
                    walk.move(actions[..., t])
                objective = torch.stack(terms).sum()
            if objective.requires_grad:
                yield objective

    def _chunk(self, actions: Tensor) -> tuple[int, int]:
        """Instances and steps at once."""
        batch, starts, steps = actions.shape
        nodes, width = self.cache.node_embeddings.shape[1:]
        shared = takes_grid(self.decoder, batch, starts) and not self.decoder.is_dynamic_embedding
        copies = 1 if shared else starts
        per_step = 4 * (starts * (10 * nodes + 10 * width) + 6 * copies * nodes * width)
        per_instance = 4 * 12 * copies * nodes * width + 2 * starts * self.td.bytes() / batch
        return chunk_sizes(batch, steps, per_instance, per_step, self.budget)


def _tensors(cache: PrecomputedCache) -> list[Tensor]:
    return [x for x in cache.fields if isinstance(x, Tensor)]


def _with(cache: PrecomputedCache, tensors: Sequence[Tensor]) -> PrecomputedCache:
    given = iter(tensors)
    return PrecomputedCache(*(next(given) if isinstance(x, Tensor) else x for x in cache.fields))


def _slices(batch: int, size: int) -> Iterator[slice]:
    for low in range(0, batch, size):
        yield slice(low, min(low + size, batch))
