"""Tasks of RL4CO's other problems: its own generators on our maps, and environments for them."""

import inspect
import math

from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch

from rl4co.data.dataset import FastTdDataset
from rl4co.envs import ENV_REGISTRY, RL4COEnvBase
from rl4co.envs.common.utils import Generator
from rl4co.envs.routing import (
    CVRPGenerator,
    CVRPTWGenerator,
    MTSPGenerator,
    MTVRPGenerator,
    OPGenerator,
    PCTSPGenerator,
    PDPGenerator,
    SVRPGenerator,
    TSPGenerator,
)
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.tasks.env import MultiTaskCVRPEnv
from rl4co_prompt.tasks.generator import FollowsTask
from rl4co_prompt.tasks.laws import Between, place_depot
from rl4co_prompt.tasks.task import PROBLEMS, Task, as_task

LENGTHS = ((20, 2.0), (50, 3.0), (100, 4.0))  # Kool et al. (2019): about half of a tour of all


def usual_length(num_loc: int) -> float:
    """Longest tour of OP and scale of PCTSP's penalties.

    Between the sizes of the literature on a line, where RL4CO takes the nearest; beyond them in
    proportion to the root of the size, as tours grow.
    """
    if num_loc >= LENGTHS[-1][0]:
        return LENGTHS[-1][1] * math.sqrt(num_loc / LENGTHS[-1][0])
    for (low, short), (high, long) in pairwise(LENGTHS):
        if num_loc <= high:
            return short + (long - short) * max(0, num_loc - low) / (high - low)
    raise AssertionError


# Of these, RL4CO's policy reads what it reads of the other.
_KIN = {"cvrpmvc": "cvrp", "sdvrp": "cvrp", "spctsp": "pctsp"}


class Map:
    """RL4CO's sampler of locations: a task's geometry, in the square that the generator has.

    It draws from torch's global generator, as RL4CO does.
    """

    def __init__(self, task: Task):
        self.task, self.low, self.high = task, 0.0, 1.0

    def sample(self, size: tuple[int, ...]) -> Tensor:
        """-> [batch, node, 2], the depot first if there is one"""
        *batch, points, _ = size
        depot = PROBLEMS[self.task.problem].depot
        rng = torch.default_generator
        count = math.prod(batch)
        xy = self.task.geometry.sample(count, points - 1 if depot else points, rng)
        xy = place_depot(xy, self.task.depot, rng) if depot else xy[:, 1:]
        return (self.low + (self.high - self.low) * xy).view(size)


class MappedMTVRPGenerator(MTVRPGenerator):
    """RL4CO's, which takes a sampler of locations but does not ask it."""

    def generate_locations(self, batch_size: Any, num_loc: int) -> Tensor:
        return self.loc_sampler.sample((*batch_size, num_loc + 1, 2))


_MAKE: dict[str, tuple[Callable[..., Generator], Callable[[Task], dict[str, Any]]]] = {
    "cvrpmvc": (CVRPGenerator, lambda task: {"capacity": task.capacity}),
    # Without a distribution of its own, the depot is the map's.
    "cvrptw": (
        CVRPTWGenerator,
        lambda task: {"capacity": task.capacity, "depot_distribution": None},
    ),
    "mtsp": (MTSPGenerator, lambda task: {"num_loc": task.num_loc + 1}),  # it counts the depot
    "mtvrp": (MappedMTVRPGenerator, lambda task: {"variant_preset": "all"}),
    "op": (OPGenerator, lambda task: {"max_length": usual_length(task.num_loc)}),
    "pctsp": (PCTSPGenerator, lambda task: {"max_penalty": usual_length(task.num_loc)}),
    "pdp": (PDPGenerator, lambda task: {}),
    "sdvrp": (CVRPGenerator, lambda task: {"capacity": task.capacity}),
    "spctsp": (PCTSPGenerator, lambda task: {"max_penalty": usual_length(task.num_loc)}),
    "svrp": (SVRPGenerator, lambda task: {}),
    "tsp": (TSPGenerator, lambda task: {}),
}


class ProblemGenerator(FollowsTask):
    """Draw instances of any problem that has tasks: locations by the task, the rest by RL4CO.

    Args:
        task: the task or its name, such as ``tsp:50-cluster``.
        device: where instances are put.
        **options: of RL4CO's generator, such as ``max_length`` of OP.
    """

    def __init__(self, task: Task | str, device: torch.device | str = "cpu", **options: Any):
        chosen = as_task(task)
        if chosen.problem not in _MAKE:
            raise ValueError(f"Draw instances of {chosen.problem} by TaskGenerator.")
        told = sorted({"num_loc", "loc_sampler", "loc_distribution"} & set(options))
        if told:
            raise TypeError(
                f"The task says what {', '.join(told)} would; name another, such as "
                f"{chosen.problem}:20-cluster."
            )
        make = _MAKE[chosen.problem][0]
        unknown = sorted(set(options) - _parameters(make))
        if unknown:
            raise TypeError(f"Unknown option {', '.join(unknown)} of {make.__name__}.")
        self.options = options
        super().__init__(chosen, device)

    @property
    def task(self) -> Task:
        return self._task

    @task.setter
    def task(self, task: Task | str) -> None:
        FollowsTask.task.fset(self, task)  # type: ignore[attr-defined]
        make, usual = _MAKE[self._task.problem]
        chart = Map(self._task)
        given = {"num_loc": self._task.num_loc} | usual(self._task) | self.options
        self.rl4co = make(loc_sampler=chart, **given)
        chart.low, chart.high = self.rl4co.min_loc, self.rl4co.max_loc
        self.rl4co.device = torch.device("cpu")  # OPGenerator reads one that it does not have

    @property
    def num_loc(self) -> int:
        """As RL4CO counts, which takes mTSP's depot in; environments read it."""
        return int(self.rl4co.num_loc)

    def __getattr__(self, name: str) -> Any:
        """What environments read, of RL4CO's generator."""
        if name.startswith("_") or name == "rl4co":
            raise AttributeError(name)
        return getattr(self.rl4co, name)

    def _generate(self, batch_size: torch.Size, rng: torch.Generator) -> TensorDict:
        # RL4CO draws from the global generator, on the CPU.
        if rng is torch.default_generator:
            return self._draw(batch_size).to(self.device)
        seed = int(torch.randint(2**62, (), generator=rng, device=rng.device))
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return self._draw(batch_size).to(rng.device)

    def _draw(self, batch_size: torch.Size) -> TensorDict:
        td = self.rl4co._generate(batch_size)
        if self.task.demand != Between():
            assert self.task.capacity is not None
            places = (td["locs"] - self.min_loc) / (self.max_loc - self.min_loc)
            demand = self.task.demand.sample(places, torch.default_generator)
            td["demand"] = demand / self.task.capacity
        return td


def task_env(
    task: Task | str, generator_params: dict[str, Any] | None = None, **options: Any
) -> RL4COEnvBase:
    """RL4CO's environment of a task's problem; assign ``env.generator.task`` to change the task.

    Args:
        task: the task or its name: ``tsp:50-cluster``, or ``50-cluster`` for CVRP.
        generator_params: of RL4CO's generator.
        **options: of RL4CO's environment; an unknown one is an error.
    """
    task = as_task(task)
    if task.problem == "cvrp":
        if generator_params:
            raise ValueError("All that CVRP instances have is in the task; drop generator_params.")
        return MultiTaskCVRPEnv(task, **options)
    kind = ENV_REGISTRY[task.problem]
    unknown = sorted(set(options) - _parameters(kind) - _parameters(RL4COEnvBase) - {"name"})
    if unknown:
        raise TypeError(f"Unknown option {', '.join(unknown)} of {kind.__name__}.")
    generator = ProblemGenerator(task, **(generator_params or {}))
    options.setdefault("dataset_cls", FastTdDataset)
    seeded = options.get("seed") is not None
    with nullcontext() if seeded else torch.random.fork_rng([]):  # RL4CO seeds, asked to or not
        env = kind(generator=generator.rl4co, **options)
    env.generator = generator
    return env


def follows_task(env: RL4COEnvBase) -> bool:
    """Whether an environment's instances are of a task that can be changed."""
    return isinstance(env.generator, FollowsTask)


def check_problem(env: RL4COEnvBase, problem: str) -> None:
    """Raise a one-sentence error when a policy's problem is not the environment's."""
    known = {problem, env.name} <= PROBLEMS.keys()
    if known and _KIN.get(problem, problem) != _KIN.get(env.name, env.name):
        raise ValueError(
            f"The policy is of {problem} and the environment of {env.name}; give weights of "
            f"{env.name}."
        )


def _parameters(kind: Any) -> set[str]:
    """That its constructors name, base classes' too."""
    makers = [vars(base)["__init__"] for base in inspect.getmro(kind) if "__init__" in vars(base)]
    names = {name for make in makers for name in inspect.signature(make).parameters}
    return names - {"self", "kwargs", "args"} | {"max_penalty"}  # PCTSP's is not in its signature
