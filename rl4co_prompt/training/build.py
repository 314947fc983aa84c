"""From file names and options to a prompted policy, as the configs need it."""

from pathlib import Path
from typing import Any

from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt.policy.backbone import Backbone, POMOPolicy, load_backbone
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.policy.pool import PromptPool
from rl4co_prompt.tasks.task import as_tasks, training_tasks
from rl4co_prompt.training.keys import cached_keys, fit_keys
from rl4co_prompt.training.spread import spread_prompts


def build_policy(
    backbone: str | Path = "cvrp",
    pool: str | Path | None = None,
    pool_options: dict[str, Any] | None = None,
    key_options: dict[str, Any] | None = None,
    cache: str | Path | None = None,
    train_decode_type: str | None = None,
    backbone_options: dict[str, Any] | None = None,
    rollout_options: dict[str, Any] | None = None,
    spread: dict[str, Any] | None = None,
) -> PromptedPolicy:
    """Load a backbone and put a pool on it.

    Args:
        backbone: file of the frozen weights, or the name of weights that ship.
        pool: file or name of a saved pool; ``None`` makes a new one and fits its keys.
        pool_options: of :class:`PromptPool`, for a new pool.
        key_options: of :func:`fit_keys`, for a new pool; as many clusters as fill the pool.
        cache: folder that keeps fitted keys between runs.
        train_decode_type: ``sampling`` or ``greedy``.
        backbone_options: of :func:`load_backbone`.
        rollout_options: of :meth:`PromptedPolicy.set_rollouts`.
        spread: of :func:`spread_prompts`, for a new pool that begins with it.
    """
    spread = None if pool is not None else spread
    if spread is not None and not (pool_options or {}).get("gated"):
        raise ValueError("spread is for gated prompts; set gated=true in pool_options.")
    model = load_backbone(backbone, **(backbone_options or {}))
    ready = (
        PromptPool.load(pool)
        if pool is not None
        else new_pool(model, pool_options or {}, key_options or {}, cache)
    )
    policy = PromptedPolicy(model, ready, train_decode_type)
    policy.set_rollouts(**(rollout_options or {}))
    if spread is not None:
        spread_prompts(policy, **spread)
    return policy


def build_backbone(
    weights: str | Path | None = None,
    options: dict[str, Any] | None = None,
    rollout_options: dict[str, Any] | None = None,
) -> Backbone:
    """A policy whose weights are all trained.

    Args:
        weights: file or name to go on from, which tells the architecture; ``None`` begins at
            random.
        options: of :class:`POMOPolicy`, for a random begin.
        rollout_options: of :meth:`POMOPolicy.set_rollouts`.
    """
    policy = POMOPolicy(**(options or {})) if weights is None else load_backbone(weights)
    policy.set_rollouts(**(rollout_options or {}))
    return policy.train().requires_grad_(True)


def new_pool(
    backbone: AttentionModelPolicy,
    pool_options: dict[str, Any],
    key_options: dict[str, Any],
    cache: str | Path | None = None,
) -> PromptPool:
    """A pool with fitted keys; a pool of one prompt needs none."""
    pool = PromptPool.for_backbone(backbone, **pool_options)
    named = key_options.get("tasks")
    problem = backbone.env_name
    tasks = training_tasks(problem) if named is None else as_tasks(named, problem)
    if pool.num_prompts == 1:
        return pool
    options = dict(key_options)
    groups = options.setdefault("groups", 4)
    if pool.num_prompts % groups:
        raise ValueError(
            f"num_prompts={pool.num_prompts} can't be split into groups={groups} of equal size."
        )
    options.pop("tasks", None)
    options |= {"clusters": pool.num_prompts // groups, "feature": pool.feature}
    fit = fit_keys if cache is None else cached_keys(cache)
    return pool.set_keys(fit(backbone, tasks, **options))
