"""Spread prompts: a new pool's prompts made to do different things, before they are trained.

Prompts that begin at random all do much the same: more tokens in the norms and in the attention.
Eight of them then hardly find other tours than one does.
"""

from collections.abc import Sequence

import torch

from rich.progress import track
from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.tasks.problems import check_problem, task_env
from rl4co_prompt.tasks.task import Task, as_tasks, only_problem
from rl4co_prompt.training.batches import seeded

TOGETHER = 6  # prompts compared in a step
INSTANCES = 3  # they are compared on
FAR = 0.3  # changes larger than this, in units of the plain output's norm, cost tours much more
MEASURED = 8  # instances of a task whose changes set the gates


def spread_prompts(
    policy: PromptedPolicy,
    tasks: Sequence[Task | str],
    distance: float = 0.1,
    steps: int = 200,
    lr: float = 0.03,
    seed: int = 0,
    progress: bool = True,
) -> PromptedPolicy:
    """Move a pool's prompts until their changes of the encoder's output have little in common.

    Args:
        policy: with gated prompts, which are changed in place.
        tasks: of one problem or their names, whose instances show the changes.
        distance: of each prompt's gated output from the plain one, in units of the latter's norm.
        steps: of Adam.
        lr: its learning rate, falling to zero.
        seed: of instances and of the prompts compared.
        progress: show a progress bar.
    """
    pool = policy.pool
    chosen = as_tasks(tasks, policy.env_name)
    if pool.gate is None:
        raise ValueError("Spreading sets gates and this pool has none; make it with gated=True.")
    if pool.num_prompts < 2 or pool.num_tokens == 0:
        raise ValueError("Spreading takes two prompts or more, of a token or more.")
    if not chosen or steps < 1 or not 0 < distance < float("inf"):
        raise ValueError(
            "Spreading takes a task, a step and a positive distance at least, got "
            f"{len(chosen)} tasks, steps={steps} and distance={distance}."
        )
    only_problem(chosen)
    env = task_env(chosen[0])
    check_problem(env, policy.env_name)
    optimizer = torch.optim.Adam([pool.prompts], lr=lr)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    with seeded(seed, device=pool.prompts.device):
        for step in track(
            range(steps), "spreading the prompts", disable=not progress, transient=True
        ):
            env.generator.task = chosen[step % len(chosen)]
            td = _instances(env, INSTANCES, pool.prompts.device)
            which = torch.randperm(pool.num_prompts)[:TOGETHER].to(pool.prompts.device)
            optimizer.zero_grad()
            own, plain = changes(policy, td, which)
            size = own.flatten(1).norm(dim=1) / plain.norm()
            too_far = (size / FAR - 1).clamp_min(0).square().mean()
            (shared_part(own) + too_far).backward()
            optimizer.step()
            fall.step()
        optimizer.zero_grad()
        _set_gates(policy, env, chosen, distance)
    return policy


def changes(policy: PromptedPolicy, td: TensorDict, which: Tensor) -> tuple[Tensor, Tensor]:
    """What prompts change of the encoder's output if their gates are open, and that output.

    -> [prompt, instance, node, embed], [instance, node, embed]
    """
    encoder = policy.encoder
    with torch.no_grad():
        _, plain, embedded = encoder.features(td)
    prompts = encoder.pool(which).repeat_interleave(len(td), 0)
    hidden = encoder.prompted(embedded.repeat(len(which), 1, 1), prompts)
    return hidden.unflatten(0, (len(which), len(td))) - plain, plain


def shared_part(changes: Tensor) -> Tensor:
    """1 if all prompts change the same, 0 if their changes are orthogonal. [prompt, ...] -> []"""
    own = changes.square().sum()
    pairs = changes.sum(0).square().sum() - own
    return pairs / (own * (len(changes) - 1))


@torch.no_grad()
def _set_gates(
    policy: PromptedPolicy, env: RL4COEnvBase, tasks: Sequence[Task], distance: float
) -> None:
    """Gates with which each prompt is as far from the plain output as the others."""
    pool = policy.pool
    assert pool.gate is not None
    found = torch.zeros_like(pool.gate)
    for task in tasks:
        env.generator.task = task
        td = _instances(env, MEASURED, pool.prompts.device)
        for prompt in range(pool.num_prompts):
            own, plain = changes(policy, td, torch.tensor([prompt], device=pool.prompts.device))
            found[prompt] += own.norm() / plain.norm() / len(tasks)
    if not (found.isfinite() & (found > 0)).all():
        raise ValueError(
            "Some prompts change nothing or give NaN, so no gate can set their distance; begin "
            "with other prompts (init_scale above 0) or check the backbone's weights."
        )
    pool.gate.copy_(distance / found)


def _instances(env: RL4COEnvBase, count: int, device: torch.device) -> TensorDict:
    td: TensorDict = env.reset(batch_size=[count])
    return td.to(device)
