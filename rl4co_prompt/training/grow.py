"""Grow a pool: one more key-prompt pair for a user's own instances, or the pairs of another pool.

What a pool holds already stays bit for bit, and so do the results of all instances whose nearest
key is one of the old ones.
"""

import warnings

from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rich.progress import track
from rl4co.data.transforms import StateAugmentation
from rl4co.envs import RL4COEnvBase, get_env
from rl4co.models.zoo.am import AttentionModelPolicy
from tensordict import TensorDict
from torch import Tensor, nn

from rl4co_prompt import zoo
from rl4co_prompt.policy.backbone import fingerprint, load_backbone
from rl4co_prompt.policy.features import get_feature
from rl4co_prompt.policy.policy import PromptedPolicy, bare
from rl4co_prompt.policy.pool import PromptPool
from rl4co_prompt.rollout.starts import rollout_options
from rl4co_prompt.tasks.generator import FollowsTask
from rl4co_prompt.tasks.instance import Instance, as_tensordict
from rl4co_prompt.tasks.problems import check_problem, follows_task, task_env
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.symmetry import Symmetries, square_of
from rl4co_prompt.tasks.task import PROBLEMS, Task, as_task
from rl4co_prompt.training.batches import seeded
from rl4co_prompt.training.keys import batch_features

LOOKS = 10  # times in a training that the new prompt is compared with the best so far


@dataclass(frozen=True)
class Training:
    """How the new prompt is trained.

    Args:
        steps: of the optimizer.
        batch_size: symmetry copies of instances, or fresh instances, in a step.
        num_starts: rollouts of each; as :func:`rollout_options` has it by default.
        lr: learning rate of Adam at the start; it falls to zero.
        seed: of the choice of instances and of their rollouts.
    """

    steps: int = 200
    batch_size: int = 32
    num_starts: int | None = None
    lr: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_size", 1), ("num_starts", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")


def add_distribution(
    pool: PromptPool | PromptedPolicy | str | Path,
    instances: TensorDict | Sequence[Any],
    backbone: AttentionModelPolicy | str | Path | None = None,
    env: RL4COEnvBase | None = None,
    task: Task | str | None = None,
    name: str | None = None,
    training: Training | None = None,
    progress: bool = True,
) -> PromptPool:
    """A pool with one more pair: the key is the instances' mean feature, the prompt is trained.

    The prompt begins as a copy of the one that most of the instances take now, and ends as the
    best on them of those seen in training, so it is never worse there.

    Args:
        pool: that grows, the policy that has it, a file or a name of one; it stays as it is.
        instances: a handful, of one size or a batch for each size, as the environment's generator
            draws them; or CVRP instances in their own units.
        backbone: the frozen policy that the pool belongs to, a file or a name of one; by default
            that of the prompted policy, or the one that ships.
        env: that they belong to; RL4CO's of the backbone's problem by default.
        task: whose fresh instances are trained on in every second step.
        name: of the distribution among the pool's tasks; the task's by default.
        training: its length and pace.
        progress: show a progress bar.
    """
    batches = _batches(instances)
    old, model = _pool_and_backbone(pool, backbone)
    _check_keys(old)
    env = _environment(model, task) if env is None else env
    check_problem(env, model.env_name)
    fresh = None if task is None else _generator(env, as_task(task, model.env_name))
    device = next(model.parameters()).device
    found = [batch_features(model, env, batch, old.feature) for batch in batches]
    features = torch.cat(found).to(old.keys.device)
    row = int(old.select(features)[:, 0].mode().values)
    groups = [reset(env, batch.to(device)) for batch in batches]
    pair = _trained(_part(old, [row]), model, env, groups, fresh, training, progress)
    if name is None:
        name = "own" if fresh is None else fresh.task.name
    key = _standardised(old, features).mean(0, keepdim=True)
    grown = _joined(old, key, pair, (name,))
    new = (grown.select(features)[:, 0] == old.num_prompts).float().mean()
    if new < 0.5:
        warnings.warn(
            f"Only {new:.0%} of the instances are nearest to their own new key; they differ more "
            "among themselves than from what the pool knows.",
            stacklevel=2,
        )
    return grown


def merge_pools(a: PromptPool | str | Path, b: PromptPool | str | Path) -> PromptPool:
    """The pairs of both, which must belong to the same backbone; ``a``'s first.

    A pair that both have, as pools do that grew from one, is there once. Where only the key is
    the same, ``a``'s prompt is the nearer one, and both compete among the k nearest. Keys that
    were standardised by other statistics are put in terms of ``a``'s.
    """
    a, b = as_pool(a), as_pool(b)
    for what, x, y in (
        ("backbone", a.backbone_fingerprint, b.backbone_fingerprint),
        ("feature", a.feature, b.feature),
        ("layers", a.num_layers, b.num_layers),
        ("tokens", a.num_tokens, b.num_tokens),
        ("width", a.embed_dim, b.embed_dim),
        ("gate", a.gate is not None, b.gate is not None),
    ):
        if x != y:
            raise ValueError(f"The pools differ in {what}, {x} and {y}; merge pools of one kind.")
    if a.backbone_fingerprint is None:
        raise ValueError("The pools are bound to no backbone; make them with one to merge them.")
    for pool in (a, b):
        _check_keys(pool)
    b = deepcopy(b).to(a.keys.device)
    keys = b.keys
    same = torch.equal(a.feature_mean, b.feature_mean) and torch.equal(a.feature_std, b.feature_std)
    if get_feature(a.feature).standardise and not same:
        keys = (keys * b.feature_std + b.feature_mean - a.feature_mean) / a.feature_std
    tasks = tuple(task for task in b.tasks if task not in a.tasks)
    new = [row for row in range(b.num_prompts) if not _holds(a, keys[row], b, row)]
    if not new:
        return deepcopy(a)
    return _joined(a, keys[new], _part(b, new), tasks)


def as_pool(pool: PromptPool | str | Path) -> PromptPool:
    """A pool from itself, its file or the name of weights that ship."""
    return pool if isinstance(pool, PromptPool) else PromptPool.load(pool)


def _pool_and_backbone(
    pool: PromptPool | PromptedPolicy | str | Path,
    backbone: AttentionModelPolicy | str | Path | None,
) -> tuple[PromptPool, AttentionModelPolicy]:
    """Of whatever stands for them; an error if they do not belong together."""
    if isinstance(pool, PromptedPolicy):
        backbone = pool.backbone if backbone is None else backbone
        pool = pool.pool
    if backbone is None:
        backbone = zoo.NAMES[0]
    model = load_backbone(backbone) if isinstance(backbone, str | Path) else bare(backbone)
    own = as_pool(pool)
    own.check_backbone(fingerprint(model))
    return own, model


def _holds(pool: PromptPool, key: Tensor, other: PromptPool, row: int) -> bool:
    """Whether a pool has another's pair, bit for bit."""
    same = (pool.keys == key).all(-1) & (pool.prompts == other.prompts[row]).flatten(1).all(-1)
    if pool.gate is not None and other.gate is not None:
        same = same & (pool.gate == other.gate[row])
    return bool(same.any())


def _check_keys(pool: PromptPool) -> None:
    if not pool.has_keys:
        raise ValueError(
            "The pool has no keys, so none can stand beside them; run fit_keys, with groups=1 and "
            "clusters=1 for a pool of one prompt, and pool.set_keys(keys)."
        )


def _environment(backbone: AttentionModelPolicy, task: Task | str | None) -> RL4COEnvBase:
    problem = backbone.env_name
    if task is None and problem not in PROBLEMS:
        return get_env(problem, check_solution=False)
    return task_env(as_task(task or "20-uniform", problem), check_solution=False)


def _generator(env: RL4COEnvBase, task: Task) -> FollowsTask:
    """Of a task's instances; the environment keeps its own."""
    if not follows_task(env):
        raise ValueError(
            f"{type(env).__name__} draws instances of no task; make the env by task_env, or leave "
            "out the task."
        )
    generator: FollowsTask = copy(env.generator)
    generator.task = task
    return generator


def _batches(instances: TensorDict | Sequence[Any]) -> list[TensorDict]:
    """One for each size."""
    several = isinstance(instances, Iterable) and not isinstance(instances, TensorDict)
    given: list[Any] = list(instances) if several else [instances]
    if not given or not all(len(x) for x in given if isinstance(x, TensorDict)):
        raise ValueError("A new distribution needs at least one instance, got none.")
    if all(isinstance(x, TensorDict) and x.batch_dims == 1 for x in given):
        return given
    if not all(isinstance(x, Instance) for x in given):
        raise TypeError("instances must be a TensorDict [batch], several of them, or Instances.")
    sizes = sorted({x.num_customers for x in given})
    return [as_tensordict([x for x in given if x.num_customers == size]) for size in sizes]


def _standardised(pool: PromptPool, features: Tensor) -> Tensor:
    if get_feature(pool.feature).standardise:
        return (features - pool.feature_mean) / pool.feature_std
    return features


def _empty_like(pool: PromptPool, count: int) -> PromptPool:
    """A pool of another number of pairs; the global random state stays."""
    shape = (pool.num_tokens, pool.num_layers, pool.embed_dim)
    with seeded(0):
        made = PromptPool(count, *shape, feature=pool.feature, gated=pool.gate is not None)
    return made.to(pool.keys.device)


@torch.no_grad()
def _part(pool: PromptPool, rows: list[int]) -> PromptPool:
    """A pool of copies of some prompts, without their keys."""
    part = _empty_like(pool, len(rows))
    part.prompts.copy_(pool.prompts[rows])
    if part.gate is not None and pool.gate is not None:
        part.gate.copy_(pool.gate[rows])
    return part


def _trained(
    one: PromptPool,
    backbone: AttentionModelPolicy,
    env: RL4COEnvBase,
    groups: list[TensorDict],
    fresh: FollowsTask | None,
    training: Training | None,
    progress: bool,
) -> PromptPool:
    """The best state of the prompt in the course of a training."""
    options = Training() if training is None else training
    policy = PromptedPolicy(backbone, one.to(next(backbone.parameters()).device)).eval()
    optimizer = torch.optim.Adam(one.parameters(), lr=options.lr)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, options.steps)
    copies = [_with_copies(env, td) for td in groups]
    best, kept = _rewards(policy, env, groups), _state(one)
    unit = best.abs().clamp(min=1e-9)
    steps = range(1, options.steps + 1)
    with seeded(options.seed, device=one.prompts.device):
        for step in track(steps, "training the prompt", disable=not progress, transient=True):
            if fresh is not None and step % 2 == 0:
                td = reset(env, fresh(options.batch_size).to(copies[0].device))
            else:
                td = _draw(copies, options.batch_size)
            optimizer.zero_grad()
            _loss(policy, env, td, options.num_starts).backward()
            optimizer.step()
            fall.step()
            if step % max(1, options.steps // LOOKS) == 0 or step == options.steps:
                found = _rewards(policy, env, groups)
                if ((found - best) / unit).mean() > 0:
                    best, kept = found, _state(one)
    one.load_state_dict(kept)
    return one


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


def _with_copies(env: RL4COEnvBase, td: TensorDict) -> TensorDict:
    """Reset instances and their seven mirror images, where they have locations."""
    if "locs" not in td.keys():  # noqa: SIM118
        return td
    return StateAugmentation(8, Symmetries(*square_of(env)), feats=["locs"])(td)


def _draw(copies: list[TensorDict], count: int) -> TensorDict:
    """Random rows of one size."""
    weights = torch.tensor([float(len(td)) for td in copies])
    td = copies[int(torch.multinomial(weights, 1))]
    return td[torch.randperm(len(td))[:count].to(td.device)]


def _loss(policy: PromptedPolicy, env: RL4COEnvBase, td: TensorDict, number: int | None) -> Tensor:
    """POMO's, with advantages in units of the instance's mean reward."""
    options = rollout_options(td, number)
    kind = "sampling" if "num_samples" in options else "multistart_sampling"
    out = policy(td, env, phase="train", **options | {"decode_type": kind})
    reward, likelihood = (out[key].view(-1, len(td)) for key in ("reward", "log_likelihood"))
    mean = reward.mean(0)
    advantage = (reward - mean) / mean.abs().clamp(min=1e-9)
    return -(advantage * likelihood).mean()


@torch.no_grad()
def _rewards(policy: PromptedPolicy, env: RL4COEnvBase, groups: list[TensorDict]) -> Tensor:
    """Best reward of each instance over greedy rollouts. -> [instance]"""
    found = []
    for td in groups:
        options = rollout_options(td)
        if "num_samples" in options:
            options = {"decode_type": "greedy"}
        else:
            options["decode_type"] = "multistart_greedy"
        out = policy(td, env, phase="test", **options)
        found.append(out["reward"].view(-1, len(td)).amax(0))
    return torch.cat(found)


@torch.no_grad()
def _joined(
    pool: PromptPool, keys: Tensor, others: PromptPool, tasks: tuple[str, ...]
) -> PromptPool:
    """A new pool of a pool's pairs, with its statistics, and other prompts under new keys."""
    device = pool.keys.device
    joined = _empty_like(pool, pool.num_prompts + others.num_prompts)
    joined.keys.copy_(torch.cat((pool.keys, keys.to(device))))
    joined.prompts.copy_(torch.cat((pool.prompts, others.prompts.to(device))))
    if joined.gate is not None and pool.gate is not None and others.gate is not None:
        joined.gate.copy_(torch.cat((pool.gate, others.gate.to(device))))
    joined.feature_mean.copy_(pool.feature_mean)
    joined.feature_std.copy_(pool.feature_std)
    joined.has_keys = True
    joined.backbone_fingerprint = pool.backbone_fingerprint
    joined.tasks = pool.tasks + tasks
    return joined
