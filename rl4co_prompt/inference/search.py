"""Search: passes of the policy over instances of one size, and the best routes of each."""

import time

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rl4co.data.transforms import StateAugmentation
from rl4co.models.zoo.am import AttentionModelPolicy
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.inference.nearest import nearest_neighbours
from rl4co_prompt.inference.solution import Attempt, Solution
from rl4co_prompt.inference.split import split_overloads
from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.rollout.budget import budget_bytes, encoder_bytes
from rl4co_prompt.tasks.env import MultiTaskCVRPEnv
from rl4co_prompt.tasks.instance import Instance, as_tensordict

COPIES = 8


@dataclass(frozen=True)
class Pass:
    """One call of the policy.

    The shape of the batch can change the last bits of a score and so a tour; copy 0 and the other
    seven are calls of their own, so that a larger budget makes the same calls and some more.

    Args:
        rank: of the prompt, 0 for the nearest.
        copies: the symmetry copies it covers.
        sampled: number of the pass among those that sample; None for a greedy one.
    """

    rank: int
    copies: tuple[int, ...]
    sampled: int | None = None

    def alone(self, copy: int) -> "Pass":
        """The part of one copy."""
        return replace(self, copies=(copy,))


def passes(num_prompts: int, augment: bool, samples: int | None) -> Iterator[Pass]:
    """What a budget asks for, in order; without end where ``samples`` is None."""
    for rank in range(num_prompts):
        yield Pass(rank, (0,))
        if augment:
            yield Pass(rank, tuple(range(1, COPIES)))
    number = 0
    while samples is None or number < samples:
        copy = number % COPIES if augment else 0
        yield Pass(number % num_prompts, (copy,), sampled=number)
        number += 1


@dataclass
class Best:
    """What is known about one instance so far."""

    cost: float = np.inf
    exact: float = np.inf
    tour: np.ndarray | None = None
    attempt: Attempt | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def offer(self, attempt: Attempt, exact: float, tour: np.ndarray) -> None:
        """Take over a tour if it is better; attempts of the policy are kept all."""
        if attempt.method != "nearest":
            self.attempts.append(attempt)
        if (attempt.cost, exact) < (self.cost, self.exact):
            self.cost, self.exact, self.tour, self.attempt = attempt.cost, exact, tour, attempt


class Search:
    """The passes over one batch.

    Args:
        policy: that builds tours.
        env: whose rules they follow.
        instances: of one size.
        scaling: how coordinates get into the unit square.
        num_prompts: most prompts that will be asked for.
        seed: of the passes that sample.
    """

    def __init__(
        self,
        policy: AttentionModelPolicy,
        env: MultiTaskCVRPEnv,
        instances: Sequence[Instance],
        scaling: str = "fit",
        num_prompts: int = 1,
        seed: int = 0,
    ):
        self.policy, self.env, self.instances = policy, env, instances
        self.num_prompts, self.seed = num_prompts, seed
        self.size = instances[0].num_customers
        self.best = [Best() for _ in instances]
        self.device = next(policy.parameters()).device
        self.begun = False
        self._instances = as_tensordict(instances, scaling)
        self._reset: TensorDict | None = None
        self._copies: TensorDict | None = None
        self._choices: dict[tuple[int, ...], Tensor] = {}

    @torch.inference_mode()
    def run(self, step: Pass, first: int = 0, last: int | None = None) -> None:
        """Make a pass from the starts ``first`` to before ``last``, counted from 0."""
        begin, self.begun = time.perf_counter(), True
        last = self.size if last is None else last
        if last - first == 1 < self.size:  # RL4CO forces no start where there is one
            first, last = (first - 1, last) if first else (0, 2)
        td = self._rows(step)
        options: dict[str, Any] = {"decode_type": "multistart_greedy", "num_starts": last - first}
        if step.sampled is not None:
            options["decode_type"] = "multistart_sampling"
        if self.size == 1:
            options["decode_type"] = options["decode_type"].removeprefix("multistart_")
            del options["num_starts"]
        elif (first, last) != (0, self.size):
            options["select_start_nodes_fn"] = lambda td, env, count: torch.arange(
                first + 1, last + 1, device=td.device
            ).repeat_interleave(len(td))
        gpu = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(gpu, enabled=step.sampled is not None):
            if step.sampled is not None:
                number = self.seed + 1_000_003 * step.sampled + 1_009 * first
                torch.manual_seed(number % 2**63)
            out = self.policy(td, self.env, phase="test", **options)
        reward = out["reward"].cpu()
        seconds = (time.perf_counter() - begin) / (len(self.instances) * len(step.copies))
        self._collect(step, reward, out["actions"], td.get(PROMPT, None), seconds)

    def go_to_neighbours(self) -> None:
        """Let routes from neighbour to neighbour compete: far from its training, policies lose."""
        for best, found in zip(self.best, nearest_neighbours(self.instances), strict=True):
            best.offer(*found)

    def release(self) -> None:
        """Give back the memory of the instances; nothing more will be run."""
        self._reset = self._copies = None
        self._choices.clear()

    def solutions(self) -> list[Solution]:
        """The best of all passes."""
        return [
            Solution(instance, routes_of(best.tour), best.attempt, tuple(best.attempts))
            for instance, best in zip(self.instances, self.best, strict=True)
            if best.tour is not None and best.attempt is not None
        ]

    def _rows(self, step: Pass) -> TensorDict:
        """The instances' copies, copy-major, with their prompts."""
        if self._reset is None:
            self._reset = self.env.reset(self._instances.to(self.device))
        td, count = self._reset, len(self.instances)
        if step.copies != (0,):
            if self._copies is None:
                self._copies = StateAugmentation(COPIES, "dihedral8")(self._reset)
            td = self._copies[step.copies[0] * count : (step.copies[-1] + 1) * count]
        if not isinstance(self.policy, PromptedPolicy):
            return td
        if step.copies not in self._choices:
            with self.policy.encoder.choosing(td, self.num_prompts) as choices:
                self._choices[step.copies] = choices
        choices = self._choices[step.copies]
        return td.copy().set(PROMPT, choices[:, min(step.rank, choices.shape[1] - 1)])

    def _collect(
        self, step: Pass, reward: Tensor, tours: Tensor, prompt: Tensor | None, seconds: float
    ) -> None:
        count, copies = len(self.instances), len(step.copies)
        # RL4CO's rows are (start copy batch).
        tours = F.pad(tours.cpu(), (1, 0))  # from the depot
        tours = tours.view(-1, copies, count, tours.shape[-1])
        best_start = reward.view(-1, copies, count).argmax(0)
        method = "greedy" if step.sampled is None else "sampled"
        prompts = None if prompt is None else prompt.view(copies, count).tolist()
        for i, instance in enumerate(self.instances):
            for j, copy in enumerate(step.copies):
                tour = _best_tour(instance, tours[:, j, i].numpy(), int(best_start[j, i]))
                cost, exact = (float(instance.tour_costs(tour[None], r)[0]) for r in (None, "none"))
                number = None if prompts is None else prompts[j][i]
                attempt = Attempt(step.rank, copy, number, cost, seconds, len(tours), method)
                self.best[i].offer(attempt, exact, tour)


def _best_tour(instance: Instance, tours: np.ndarray, best: int) -> np.ndarray:
    """The cheapest of some tours, [tour, step], as the instance counts and loads.

    Args:
        best: the cheapest without rounding.
    """
    if instance.counts_exactly and instance.rounding == "none":
        return tours[best].copy()  # without the others
    costs = instance.tour_costs(tours)
    if instance.counts_exactly:
        return tours[costs.argmin()].copy()
    least, kept = np.inf, tours[best]
    for i in costs.argsort(kind="stable"):
        if costs[i] >= least:
            break
        tour = split_overloads(instance, tours[i])
        cost = float(instance.tour_costs(tour[None])[0])
        if cost < least:
            least, kept = cost, tour
    return kept.copy()


def routes_of(tour: np.ndarray) -> list[list[int]]:
    """[step] nodes, depot visits as 0 -> routes"""
    cuts = np.flatnonzero(tour == 0)
    parts = (part[part != 0] for part in np.split(tour, cuts))
    return [part.tolist() for part in parts if len(part)]


def instances_at_once(policy: AttentionModelPolicy, size: int) -> int:
    """Instances whose copies can be encoded together within the policy's memory budget."""
    device = next(policy.parameters()).device
    nodes = TensorDict({"action_mask": torch.empty(1, size + 1, device="meta")}, batch_size=[1])
    budget = budget_bytes(getattr(policy, "memory_budget", None), device)
    return max(1, int(budget // (COPIES * encoder_bytes(policy.decoder, nodes))))
