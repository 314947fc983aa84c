"""Another problem end to end: TSP, from an untrained net to prompts for maps it never saw.

A small net learns uniform maps of 20 cities by POMO. Frozen, it is taken to 50 cities, uniform and
in clusters; a pool of two prompts with keys for these maps makes tours there shorter by 0.7 to
1.2 % and leaves those at home as long as they were. Any problem of docs/problems.md that has tasks
can be put in place of tsp.

    python examples/03_other_problems.py [--problem tsp] [--backbone-epochs 20] [--epochs 36]
"""

import argparse
import time

import torch

from helpers import quiet_trainer

from rl4co_prompt import POMOPolicy, PromptedPolicy, PromptPOMO, PromptPool, fit_keys, task_env
from rl4co_prompt.rollout.starts import rollout_options
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.schedule import Sequential
from rl4co_prompt.training.callbacks import PromptProgressBar
from rl4co_prompt.training.multi_task import MultiTaskPOMO

NET = {"embed_dim": 64, "num_encoder_layers": 3, "feedforward_hidden": 128}
HOME, AWAY, COUNT = 20, 50, 256
BACKBONE_SIZE, PROMPT_SIZE = 1_600, 256  # instances of an epoch
MAPS = ("uniform", "cluster", "gm-3-10")


def fit(model, epochs: int) -> float:
    """Seconds that it took."""
    begin = time.perf_counter()
    bar = PromptProgressBar(leave=False)
    quiet_trainer(max_epochs=epochs, limit_val_batches=0, callbacks=[bar]).fit(model)
    return time.perf_counter() - begin


def train_backbone(problem: str, epochs: int) -> POMOPolicy:
    """All weights, on uniform maps of one size."""
    torch.manual_seed(1234)
    home = f"{problem}:{HOME}-uniform"
    model = MultiTaskPOMO(
        task_env(home, check_solution=False),
        POMOPolicy(problem, **NET),
        Sequential([home]),
        val_tasks=[home],
        batch_size=64,
        train_data_size=BACKBONE_SIZE,
        lr_milestones=(0.8,),
        optimizer_kwargs={"lr": 1e-3},
    )
    seconds = fit(model, epochs)
    print(f"Backbone: {seconds:.0f} seconds on {epochs * BACKBONE_SIZE} instances of {home}.")
    return model.policy.eval().requires_grad_(False)


def train_prompts(backbone: POMOPolicy, tasks: list[str], epochs: int) -> PromptedPolicy:
    """Prompts alone, a task each epoch."""
    torch.manual_seed(0)
    pool = PromptPool.for_backbone(backbone, num_prompts=2, gated=True)
    pool.set_keys(fit_keys(backbone, tasks, per_task=64, groups=1, clusters=2))
    policy = PromptedPolicy(backbone, pool)
    print(policy.trainable_parameters())
    model = PromptPOMO(
        task_env(tasks[0], check_solution=False),
        policy,
        Sequential(tasks),
        val_tasks=tasks[:1],
        batch_size=32,
        train_data_size=PROMPT_SIZE,
        lr_milestones=(0.7, 0.9),
        optimizer_kwargs={"lr": 0.03, "weight_decay": 1e-6},
    )
    print(f"Prompts: {fit(model, epochs):.0f} seconds on {epochs * PROMPT_SIZE} instances.")
    return policy.eval()


@torch.no_grad()
def mean_reward(policy, task: str) -> float:
    """Of the best of all starts, on instances that no training saw."""
    env = task_env(task)
    td = reset(env, env.generator(COUNT, rng=2023))
    out = policy(td, env, phase="test", **rollout_options(td), decode_type="multistart_greedy")
    return out["reward"].view(-1, COUNT).amax(0).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="tsp", help="that has tasks")
    parser.add_argument("--backbone-epochs", type=int, default=20, help="on uniform maps")
    parser.add_argument("--epochs", type=int, default=36, help="one task each")
    arguments = parser.parse_args()

    backbone = train_backbone(arguments.problem, arguments.backbone_epochs)
    tasks = [f"{arguments.problem}:{AWAY}-{name}" for name in MAPS]
    prompted = train_prompts(backbone, tasks, arguments.epochs)
    print(f"{'mean reward of ' + str(COUNT):24s} {'frozen alone':>12s} {'with prompts':>12s}")
    for task in (f"{arguments.problem}:{HOME}-uniform", *tasks):
        before, after = (mean_reward(policy, task) for policy in (backbone, prompted))
        change = 100 * (after - before) / abs(before)
        print(f"{task:24s} {before:12.3f} {after:12.3f}  {change:+.1f} %")


if __name__ == "__main__":
    main()
