"""Prompt learning for generalised vehicle routing, as a plugin for RL4CO.

The public names load on first use, so that importing the package stays quick; importing it
registers the environments ``multi_cvrp`` and ``multi_task`` with RL4CO.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rl4co_prompt._registration import register_with_rl4co

if TYPE_CHECKING:
    from rl4co_prompt.inference.solution import Solution
    from rl4co_prompt.inference.solver import Solver
    from rl4co_prompt.policy.backbone import (
        AttentionPolicy,
        POMOPolicy,
        load_backbone,
        save_backbone,
    )
    from rl4co_prompt.policy.importing import import_weights
    from rl4co_prompt.policy.policy import PromptedPolicy
    from rl4co_prompt.policy.pool import PromptPool
    from rl4co_prompt.tasks.env import MultiTaskCVRPEnv
    from rl4co_prompt.tasks.generator import TaskGenerator
    from rl4co_prompt.tasks.instance import Instance
    from rl4co_prompt.tasks.problems import ProblemGenerator, task_env
    from rl4co_prompt.tasks.task import Task, training_tasks, unseen_tasks
    from rl4co_prompt.training.grow import add_distribution, merge_pools
    from rl4co_prompt.training.keys import fit_keys
    from rl4co_prompt.training.prompt_pomo import PromptPOMO

__version__ = "0.1.0"

_HOME = {
    "AttentionPolicy": "policy.backbone",
    "Instance": "tasks.instance",
    "MultiTaskCVRPEnv": "tasks.env",
    "POMOPolicy": "policy.backbone",
    "ProblemGenerator": "tasks.problems",
    "PromptPOMO": "training.prompt_pomo",
    "PromptPool": "policy.pool",
    "PromptedPolicy": "policy.policy",
    "Solution": "inference.solution",
    "Solver": "inference.solver",
    "Task": "tasks.task",
    "TaskGenerator": "tasks.generator",
    "add_distribution": "training.grow",
    "fit_keys": "training.keys",
    "import_weights": "policy.importing",
    "load_backbone": "policy.backbone",
    "merge_pools": "training.grow",
    "save_backbone": "policy.backbone",
    "task_env": "tasks.problems",
    "training_tasks": "tasks.task",
    "unseen_tasks": "tasks.task",
}

__all__ = [
    "AttentionPolicy",
    "Instance",
    "MultiTaskCVRPEnv",
    "POMOPolicy",
    "ProblemGenerator",
    "PromptPOMO",
    "PromptPool",
    "PromptedPolicy",
    "Solution",
    "Solver",
    "Task",
    "TaskGenerator",
    "add_distribution",
    "fit_keys",
    "import_weights",
    "load_backbone",
    "merge_pools",
    "save_backbone",
    "task_env",
    "training_tasks",
    "unseen_tasks",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'rl4co_prompt' has no attribute {name!r}")
    return getattr(import_module(f"rl4co_prompt.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


register_with_rl4co()
