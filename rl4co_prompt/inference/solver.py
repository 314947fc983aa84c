"""Solver: instances in, solutions out."""

import math
import time
import warnings

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt import zoo
from rl4co_prompt.inference.inputs import is_single, read_instances
from rl4co_prompt.inference.pace import Pace
from rl4co_prompt.inference.progress import ProgressBar
from rl4co_prompt.inference.search import Pass, Search, instances_at_once, passes
from rl4co_prompt.inference.solution import Solution
from rl4co_prompt.policy.backbone import load_backbone
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.tasks.env import MultiTaskCVRPEnv
from rl4co_prompt.tasks.instance import Instance

OWN = "own"  # the pool that belongs to named weights
IN_HASTE = (16, 4)  # instances at once under a time limit: some are better solved than none
AFTERWARDS = 2e-5  # seconds per customer to make and check routes when time is up


class Solver:
    """Solves CVRP instances with a trained policy: all starts, symmetry copies and prompts compete.

    Args:
        policy: a :class:`PromptedPolicy`, or any RL4CO attention policy for CVRP; it solves in
            evaluation mode and is left as it was.
        scaling: of coordinates, see :func:`unit_square`.
        progress: show a bar when solving takes longer than a second.
    """

    def __init__(self, policy: AttentionModelPolicy, scaling: str = "fit", progress: bool = True):
        problem = getattr(policy, "env_name", "nothing")
        if problem != "cvrp":
            raise ValueError(f"The solver is for CVRP, the policy for {problem!r}.")
        self.policy, self.scaling, self.progress = policy, scaling, progress
        self.label = "solving"  # of the bar
        self.env = MultiTaskCVRPEnv(check_solution=False)  # solutions are checked on their own
        self.pace = Pace()
        self._warm_up()

    @classmethod
    def from_pretrained(
        cls,
        backbone: AttentionModelPolicy | str | Path = "cvrp",
        pool: str | Path | None = OWN,
        device: str | torch.device | None = None,
        num_heads: int | None = None,
        normalization: str | None = None,
        **options: Any,
    ) -> "Solver":
        """A solver from weights.

        Args:
            backbone: a name, the file of a backbone, or a policy.
            pool: file of a prompt pool for that backbone; ``own`` takes the one that ships with a
                name, if there is one; None lets the backbone work alone.
            device: that the policy is moved to; a GPU where there is one, else the CPU.
            num_heads, normalization: where the file does not tell; as in :func:`load_backbone`.
            **options: of the solver.
        """
        policy = load_policy(backbone, pool, num_heads, normalization)
        return cls(policy.to(_device(device)), **options)

    def solve(
        self,
        x: Any,
        num_prompts: int = 8,
        augment: bool = True,
        time_limit: float | None = None,
        seed: int = 0,
        *,
        samples: int | None = 0,
        capacity: float | None = None,
    ) -> Any:
        """Solve instances.

        More prompts or copies never make the greedy tours worse, nor do samples any result.

        Args:
            x: a .vrp, .csv or .npz file, a folder of .vrp files, a pandas table of x, y, demand
                with the depot in its first row, a TensorDict, a mapping or tuple of depot,
                customers, demand and capacity, or a list of such.
            num_prompts: nearest prompts that are tried; at most the pool, and 1 without a pool.
            augment: try the eight symmetry copies.
            time_limit: seconds for the whole call; what is best by then is returned.
            seed: of sampled tours.
            samples: passes of sampled tours after the greedy ones; None goes on until the limit.
            capacity: of what does not state it.

        Returns:
            A :class:`Solution` for one file, table or :class:`Instance`, else a list of them.
        """
        begin = time.perf_counter()
        num_prompts, samples, seed = _whole(num_prompts=num_prompts, samples=samples, seed=seed)
        self._check(num_prompts, time_limit, samples)
        instances = read_instances(x, capacity)
        if not instances:
            return []
        prompts = self._prompts(num_prompts)
        batches = self._batches(instances, time_limit)
        searches = [
            Search(
                self.policy, self.env, [instances[row] for row in rows], self.scaling, prompts, seed
            )
            for rows in batches
        ]
        for search in searches:
            search.go_to_neighbours()
        budget = (prompts, augment, samples)
        with _evaluating(self.policy), ProgressBar(self.progress, self.label) as bar:
            if time_limit is None:
                self._run_all(searches, budget, bar)
            else:
                customers = sum(instance.num_customers for instance in instances)
                reserve = min(time_limit / 10, AFTERWARDS * customers)
                self._run_until(searches, budget, begin + time_limit - reserve, bar)
                for size in {search.size for search in searches if not search.begun}:
                    self.pace.doubt(size)  # or one bad moment would decide for ever
        _warn_of_late(searches)
        by_row: dict[int, Solution] = {}
        for search, rows in zip(searches, batches, strict=True):
            by_row |= dict(zip(rows, search.solutions(), strict=True))
        solutions = [by_row[row] for row in range(len(instances))]
        return solutions[0] if is_single(x) else solutions

    def _check(self, num_prompts: int, time_limit: float | None, samples: int | None) -> None:
        if num_prompts < 1:
            raise ValueError(f"num_prompts must be at least 1, got {num_prompts}.")
        if time_limit is not None and not 0 < time_limit < math.inf:
            raise ValueError(f"time_limit must be a positive number of seconds, got {time_limit}.")
        if samples is None and time_limit is None:
            raise ValueError("samples=None samples until time_limit, so it needs one.")
        if samples is not None and samples < 0:
            raise ValueError(f"samples must be 0 or more, got {samples}.")

    def _prompts(self, num_prompts: int) -> int:
        policy = self.policy
        if not isinstance(policy, PromptedPolicy):
            return 1
        return min(num_prompts, policy.pool.num_prompts)

    def _batches(self, instances: list[Instance], time_limit: float | None) -> list[list[int]]:
        """Which instances go together: of equal size, and as many as memory and time allow."""
        by_size: dict[int, list[int]] = {}
        for row, instance in enumerate(instances):
            by_size.setdefault(instance.num_customers, []).append(row)
        batches = []
        for size, rows in sorted(by_size.items()):
            step = instances_at_once(self.policy, size)
            if time_limit is not None:
                fits = (n for n in IN_HASTE if self.pace.starts_within(time_limit / 4, n, size, 1))
                step = min(step, next(fits, 1))
            batches += [rows[low : low + step] for low in range(0, len(rows), step)]
        return batches

    def _run_all(self, searches: list[Search], budget: tuple, bar: ProgressBar) -> None:
        plan = list(passes(*budget))
        bar.total = sum(
            len(search.instances) * len(step.copies) * search.size**2
            for search in searches
            for step in plan
        )
        for search in searches:
            for step in plan:
                search.run(step)
                bar.advance(len(search.instances) * len(step.copies) * search.size**2, searches)
            search.release()

    def _run_until(
        self, searches: list[Search], budget: tuple, deadline: float, bar: ProgressBar
    ) -> None:
        """All instances get a part of their first pass before any gets more."""
        bar.total = deadline - time.perf_counter()
        done = [0] * len(searches)
        first = Pass(0, (0,))
        for i, search in enumerate(searches):
            now = time.perf_counter()
            share = now + (deadline - now) / (len(searches) - i)
            done[i] = self._run_in_time(search, first, 0, share)
            bar.advance(time.perf_counter() - now, searches)
        for part in (step.alone(copy) for step in passes(*budget) for copy in step.copies):
            going_on = False
            for i, search in enumerate(searches):
                now, begin = time.perf_counter(), done[i] if part == first else 0
                reached = self._run_in_time(search, part, begin, deadline)
                going_on |= reached > begin or begin == search.size
                bar.advance(time.perf_counter() - now, searches)
            if not going_on:
                return

    def _run_in_time(self, search: Search, step: Pass, done: int, deadline: float) -> int:
        """Go on with a pass of which some starts are done, as far as time allows; starts done."""
        rows = len(search.instances)
        while done < search.size:
            left = deadline - time.perf_counter()
            count = self.pace.starts_within(left, rows, search.size, search.size - done)
            if count == 0:
                break
            begin = time.perf_counter()
            search.run(step, done, done + count)
            self.pace.learn(time.perf_counter() - begin, rows, search.size, count)
            done += count
        return done

    def _warm_up(self) -> None:
        """Compile or load the kernel, and learn the pace, before any clock runs."""
        rng = np.random.default_rng(0)
        with _evaluating(self.policy):
            for size in (10, 100):
                demand = rng.integers(1, 10, size)
                instance = Instance(rng.random((size + 1, 2)), demand, 50)
                search = Search(self.policy, self.env, [instance])
                taken = []
                for _ in range(3):
                    begin = time.perf_counter()
                    search.run(Pass(0, (0,)))
                    taken.append(time.perf_counter() - begin)
                if size == 10:
                    self.pace.set_fixed(min(taken))
            self.pace.learn(min(taken), 1, size, size)


def _whole(**options: Any) -> list[Any]:
    """The values as Python's integers; only ``samples`` may be None."""
    for name, value in options.items():
        if not (isinstance(value, Integral) or (name == "samples" and value is None)):
            raise ValueError(f"{name} must be a whole number, got {value!r}.")
    return [None if value is None else int(value) for value in options.values()]


def _device(name: str | torch.device | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"Unknown device {name!r}; use cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("There is no CUDA GPU at hand; use the device cpu.")
    return device


@contextmanager
def _evaluating(policy: AttentionModelPolicy) -> Iterator[None]:
    """In evaluation mode: solving must not move norm statistics."""
    training = policy.training
    policy.eval()
    try:
        yield
    finally:
        policy.train(training)


def load_policy(
    backbone: AttentionModelPolicy | str | Path = "cvrp",
    pool: str | Path | None = OWN,
    num_heads: int | None = None,
    normalization: str | None = None,
) -> AttentionModelPolicy:
    """The backbone alone, or with a pool on it; as in :meth:`Solver.from_pretrained`."""
    model, own = backbone, None
    if isinstance(backbone, str | Path):
        shipped = zoo.find(backbone)
        own = None if shipped is None else shipped.pool
        model = load_backbone(backbone, num_heads=num_heads, normalization=normalization)
    if pool == OWN:
        pool = own
    return model if pool is None else PromptedPolicy.from_pretrained(model, pool)


def _warn_of_late(searches: list[Search]) -> None:
    """Say how many instances the policy had no time for."""
    everyone = [best for search in searches for best in search.best]
    late = sum(not best.attempts for best in everyone)
    if late:
        warnings.warn(
            f"The time limit ended before the policy reached {late} of {len(everyone)} instances; "
            "their routes go from neighbour to neighbour.",
            stacklevel=3,
        )
