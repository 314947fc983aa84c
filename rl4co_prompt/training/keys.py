"""Fit the keys: features of many tasks, grouped by size, clustered by K-means (Sec. 3.3)."""

import hashlib
import json
import warnings

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rich.progress import track
from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.am import AttentionModelPolicy
from safetensors.torch import load_file
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt import __version__
from rl4co_prompt.policy.backbone import fingerprint
from rl4co_prompt.policy.features import get_feature, instance_features
from rl4co_prompt.policy.files import write_safetensors
from rl4co_prompt.policy.policy import bare
from rl4co_prompt.policy.pool import Keys
from rl4co_prompt.tasks.problems import task_env
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.task import Task, as_tasks, only_problem

CHUNK = 16  # instances per encoder pass; small ones stay in the cache


def fit_keys(
    backbone: AttentionModelPolicy,
    tasks: Sequence[Task | str],
    per_task: int = 128,
    groups: int = 4,
    clusters: int = 4,
    seed: int = 0,
    feature: str = "code",
    progress: bool = True,
    env: RL4COEnvBase | None = None,
) -> Keys:
    """Find ``groups * clusters`` keys on the backbone's device.

    Args:
        backbone: the frozen policy that features come from, or a prompted one on it.
        tasks: tasks of one problem or their names; fresh instances are drawn from each.
        per_task: instances per task.
        groups: equal groups of sizes, ascending; 1 clusters all sizes together.
        clusters: K-means centres per group.
        seed: of the instances and of K-means.
        feature: ``code`` or ``paper``.
        progress: show a progress bar.
        env: of :func:`task_env`, where its instances are not the usual ones of the tasks.
    """
    backbone = bare(backbone)
    chosen = as_tasks(tasks, backbone.env_name)
    if not chosen:
        raise ValueError("fit_keys needs at least one task, got none.")
    sizes = sorted({task.num_loc for task in chosen})
    _check_counts(per_task, groups, clusters)
    parts = size_groups(sizes, groups)
    for part in parts:
        count = per_task * sum(task.num_loc in part for task in chosen)
        if clusters > count:
            raise ValueError(
                f"clusters={clusters} exceeds the {count} instances of sizes {part[0]} to "
                f"{part[-1]}; K-means needs at least as many instances as keys."
            )
    features = task_features(backbone, chosen, per_task, seed, feature, progress, env)
    owner = np.repeat([task.num_loc for task in chosen], per_task)
    rows = [torch.from_numpy(np.isin(owner, part)) for part in parts]
    names = tuple(task.name for task in chosen)
    return _clustered(backbone, features.flatten(0, 1), rows, clusters, seed, feature, names)


def fit_keys_to(
    backbone: AttentionModelPolicy,
    env: RL4COEnvBase,
    batches: Sequence[TensorDict],
    clusters: int = 4,
    seed: int = 0,
    feature: str = "code",
    names: Sequence[str] = (),
) -> Keys:
    """Find keys for given instances of any of RL4CO's environments.

    Args:
        backbone: the frozen policy that features come from, or a prompted one on it.
        env: that the instances belong to.
        batches: instances of one size each, as the environment's generator draws them.
        clusters: K-means centres of all together.
        seed: of K-means.
        feature: ``code`` or ``paper``.
        names: of where the instances come from.
    """
    backbone = bare(backbone)
    _check_counts(1, 1, clusters)
    count = sum(len(batch) for batch in batches)
    if clusters > count:
        raise ValueError(f"clusters={clusters} exceeds the {count} instances; give more.")
    found = torch.cat([batch_features(backbone, env, batch, feature) for batch in batches])
    everything = [torch.ones(count, dtype=torch.bool)]
    return _clustered(backbone, found, everything, clusters, seed, feature, tuple(names))


def _clustered(
    backbone: AttentionModelPolicy,
    features: Tensor,
    groups: list[Tensor],
    clusters: int,
    seed: int,
    feature: str,
    names: tuple[str, ...],
) -> Keys:
    """Keys of features [instance, feature], group by group."""
    vectors = features.double().cpu()
    mean, std = vectors.mean(0), vectors.std(0, correction=0)
    std = std.where(std > 0, torch.ones_like(std))
    if get_feature(feature).standardise:
        vectors = (vectors - mean) / std
    centres = [_centres(vectors[rows].numpy(), clusters, seed) for rows in groups]
    return Keys(
        keys=torch.from_numpy(np.concatenate(centres)).float(),
        mean=mean.float(),
        std=std.float(),
        feature=feature,
        backbone=fingerprint(backbone),
        tasks=names,
    )


def size_groups(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Equal groups of ascending sizes, the larger ones first."""
    if groups > len(sizes):
        raise ValueError(
            f"groups={groups} exceeds the {len(sizes)} different sizes of the tasks; lower groups."
        )
    return [part.tolist() for part in np.array_split(sorted(sizes), groups)]


def cached_keys(folder: str | Path) -> Callable[..., Keys]:
    """:func:`fit_keys` that keeps its results, by backbone and arguments, as files in a folder."""

    def fit(backbone: AttentionModelPolicy, tasks: Sequence[Task | str], **options: Any) -> Keys:
        names = [task.name for task in as_tasks(tasks, backbone.env_name)]
        options.setdefault("feature", "code")
        chosen = sorted((name, value) for name, value in options.items() if name != "progress")
        mark = fingerprint(backbone)
        recipe = json.dumps([__version__, mark, names, chosen])
        path = Path(folder) / f"{hashlib.sha256(recipe.encode()).hexdigest()[:16]}.safetensors"
        if path.is_file():
            found = load_file(path)
            return Keys(**found, feature=options["feature"], backbone=mark, tasks=tuple(names))
        keys = fit_keys(backbone, tasks, **options)
        tensors = {"keys": keys.keys, "mean": keys.mean, "std": keys.std}
        write_safetensors(path, tensors, {"recipe": recipe})
        return keys

    return fit


def task_features(
    backbone: AttentionModelPolicy,
    tasks: Sequence[Task],
    per_task: int,
    seed: int = 0,
    feature: str = "code",
    progress: bool = False,
    env: RL4COEnvBase | None = None,
) -> Tensor:
    """Features of fresh instances, before standardising. -> [task, instance, feature]"""
    problem = only_problem(tasks)
    if problem != backbone.env_name:
        raise ValueError(
            f"The tasks are of {problem}, the backbone is of {backbone.env_name}; write "
            f"{backbone.env_name}:SIZE-GEOMETRY."
        )
    env = task_env(tasks[0]) if env is None else env
    now, found = env.generator.task, []
    for index, task in enumerate(
        track(tasks, "features of the tasks", disable=not progress, transient=True)
    ):
        env.generator.task = task
        batch = env.generator(per_task, rng=seed * 1_000_003 + index)
        found.append(batch_features(backbone, env, batch, feature))
    env.generator.task = now
    return torch.stack(found)


@torch.no_grad()
def batch_features(
    backbone: AttentionModelPolicy, env: RL4COEnvBase, batch: TensorDict, feature: str = "code"
) -> Tensor:
    """Features of instances, before standardising. -> [instance, feature], on the CPU"""
    encoder = backbone.encoder
    was_training = encoder.training
    encoder.eval()
    device = next(encoder.parameters()).device
    parts = (reset(env, part.to(device)) for part in batch.split(CHUNK))
    found = [instance_features(encoder, td, get_feature(feature))[0].cpu() for td in parts]
    encoder.train(was_training)
    return torch.cat(found)


def _centres(vectors: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return KMeans(clusters, n_init=10, random_state=seed).fit(vectors).cluster_centers_
        except ConvergenceWarning:
            raise ValueError(
                f"K-means found fewer than {clusters} different keys among {len(vectors)} "
                "instances; lower clusters or give more varied tasks."
            ) from None


def _check_counts(per_task: int, groups: int, clusters: int) -> None:
    for name, value in (("per_task", per_task), ("groups", groups), ("clusters", clusters)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
