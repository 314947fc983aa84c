"""Which prompts are near an instance, and how near."""

from collections.abc import Sequence
from typing import Any

import torch

from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.tasks.env import MultiTaskCVRPEnv
from rl4co_prompt.tasks.instance import Instance, as_tensordict


@torch.inference_mode()
def explain_instances(
    policy: AttentionModelPolicy, instances: Sequence[Instance], scaling: str = "fit"
) -> list[dict[str, Any]]:
    """Keys of each instance by distance, and the prompt it takes."""
    if not isinstance(policy, PromptedPolicy):
        raise ValueError("The policy has no prompts, so there is nothing to explain.")
    env, found = MultiTaskCVRPEnv(), []
    for instance in instances:
        td = env.reset(as_tensordict([instance], scaling).to(policy.pool.keys.device))
        nearest = policy.explain(td)
        found.append(
            {
                "name": instance.name,
                "customers": instance.num_customers,
                "prompt": int(nearest.prompts[0]),
                "keys": nearest.keys[0].tolist(),
                "distances": [
                    None if distance != distance else distance  # a single prompt has no key
                    for distance in nearest.distances[0].tolist()
                ],
            }
        )
    return found
