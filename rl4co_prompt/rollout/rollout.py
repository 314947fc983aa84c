"""Rollouts without a graph, on the lean or the generic path, as many starts at once as fit."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.am.decoder import AttentionModelDecoder
from rl4co.utils.ops import batchify
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.rollout import compiled, generic, lean, noise
from rl4co_prompt.rollout.budget import rollout_bytes, starts_at_once
from rl4co_prompt.rollout.decoding import Request
from rl4co_prompt.rollout.faults import never_done
from rl4co_prompt.rollout.layout import join_starts, start_major
from rl4co_prompt.rollout.pointer import pointer_model
from rl4co_prompt.rollout.replay import GenericReplay, LeanReplay, Tours


@dataclass
class Job:
    """What to roll out.

    Args:
        hidden: [batch, node, embed], the encoder's output.
        td: the reset instances.
        seed: of the sampled choices.
        offset: number of the first instance; with the seed, it fixes the choices.
    """

    decoder: AttentionModelDecoder
    hidden: Tensor
    td: TensorDict
    env: RL4COEnvBase
    request: Request
    seed: int
    offset: int

    def starts(
        self, engine: str, budget: float
    ) -> Iterator[tuple[int, Tensor | None, Tensor | None]]:
        """Number, first nodes and random states of as many starts as fit at once."""
        count = self.request.count(self.td, self.env)
        first = self.request.starts(self.td, self.env, count)
        states = self._states(count) if self.request.decoding.sampling else None
        size = starts_at_once(
            len(self.td), count, *rollout_bytes(self.decoder, self.td, engine), budget
        )
        for low in range(0, count, size):
            rows = slice(low, min(low + size, count))
            yield (
                rows.stop - low,
                None if first is None else first[:, rows],
                None if states is None else states[:, rows],
            )

    def _states(self, count: int) -> Tensor:
        device = self.hidden.device
        instances = torch.arange(self.offset, self.offset + len(self.td), device=device)
        return noise.start_states(self.seed, instances, torch.arange(count, device=device))


@dataclass
class Rollouts:
    """Tours, their rewards [batch, start], and how to take their gradient."""

    record: Tours
    reward: Tensor
    replay: LeanReplay | GenericReplay


def lean_tours(job: Job, budget: float, calc_reward: bool, max_steps: int) -> Rollouts:
    """CVRP and TSP."""
    model = pointer_model(job.decoder, job.hidden, job.td, chooses=not job.request.forced)
    kernel = compiled.why_not_compiled(model, budget) is None
    decoding = job.request.decoding
    with torch.no_grad():
        run = compiled.tours if kernel else lean.tours
        parts = [run(model, *part, decoding) for part in job.starts("lean", budget)]
        actions, log_probs = (join_starts(list(x)) for x in zip(*parts, strict=True))
        if actions.shape[-1] > max_steps:
            raise never_done(job.env, max_steps)
        reward = torch.zeros_like(log_probs[..., 0])
        if calc_reward:
            if job.env.check_solution:
                rows = batchify(job.td, actions.shape[1])
                job.env.check_solution_validity(rows, start_major(actions))
            reward = -lean.tour_lengths(job.td["locs"], actions, model.has_depot)
    tours = Tours(actions, log_probs, chooses=not job.request.forced)
    return Rollouts(tours, reward, LeanReplay(model, decoding, budget, kernel))


def generic_tours(job: Job, budget: float, calc_reward: bool, max_steps: int) -> Rollouts:
    """Any environment."""
    cache = job.decoder._precompute_cache(job.hidden)
    decoding, batch = job.request.decoding, len(job.td)
    found = []
    with torch.no_grad():
        for count, starts, states in job.starts("generic", budget):
            walk = generic.Walk(job.env, job.td, count, starts)
            shared = generic.Cache(job.decoder, cache, count)
            actions, log_probs = generic.tours(shared, walk, starts, states, decoding, max_steps)
            reward = walk.td["reward"]
            if calc_reward:
                reward = job.env.get_reward(walk.td, actions.flatten(0, 1))
            found.append((actions, log_probs, reward.view(batch, count, -1)))
    actions, log_probs, reward = (join_starts(list(x)) for x in zip(*found, strict=True))
    tours = Tours(actions, log_probs, chooses=not job.request.forced)
    replay = GenericReplay(job.env, job.decoder, job.td, cache, decoding, budget)
    return Rollouts(tours, reward.squeeze(-1), replay)
