"""Tiny models and tasks that the tests share."""

import pytest
import torch

from rl4co_prompt import (
    MultiTaskCVRPEnv,
    POMOPolicy,
    PromptedPolicy,
    PromptPool,
    fit_keys,
    load_backbone,
)
from rl4co_prompt.tasks.data import BACKBONE, outside_data

torch.set_num_threads(1)  # tiny models: threads cost more than they give

TASKS = ("10-uniform", "12-cluster", "14-gm-3-10")


def outside(name):
    """Path of an outside file, or a skip that names it."""
    path = outside_data(name)
    if path is None:
        pytest.skip(f"outside data absent: {name}")
    return path


@pytest.fixture
def backbone():
    torch.manual_seed(0)
    policy = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    return policy.eval().requires_grad_(False)


@pytest.fixture
def keys(backbone):
    return fit_keys(backbone, TASKS, per_task=8, groups=2, clusters=2, progress=False)


@pytest.fixture
def pool(backbone, keys):
    torch.manual_seed(1)
    # Prompts of full scale: they must make a difference on an untrained backbone.
    return PromptPool.for_backbone(backbone, 4, num_tokens=2, init_scale=1.0).set_keys(keys)


@pytest.fixture
def policy(backbone, pool):
    return PromptedPolicy(backbone, pool).eval()


@pytest.fixture
def env():
    return MultiTaskCVRPEnv("10-uniform", seed=0)


@pytest.fixture(scope="session")
def outside_backbone():
    return load_backbone(outside(BACKBONE), num_heads=8, normalization="instance")
