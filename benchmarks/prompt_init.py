"""How prompts should start: one prompt, 50 customers, a frozen model of 100, three ways to begin.

Prints the gap to HGS before and after the same short training by rewards, over several seeds.
About two minutes a run on one core; the default is six runs.

    python benchmarks/prompt_init.py [--seeds 2] [--epochs 24]
"""

import argparse
import sys

from pathlib import Path

import torch

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
from helpers import mean_gap, quiet_trainer

from rl4co_prompt import (
    MultiTaskCVRPEnv,
    PromptedPolicy,
    PromptPOMO,
    PromptPool,
    Solver,
    load_backbone,
)
from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.tasks.data import BACKBONE, outside_data
from rl4co_prompt.tasks.schedule import Sequential

STARTS = {
    "U(-1, 1), the paper's": {"init_scale": 1.0},
    "U(-0.1, 0.1)": {"init_scale": 0.1},
    "U(-0.1, 0.1), gated": {"init_scale": 0.1, "gated": True},
}
OWN_SIZE, SIZE = 100, 50


def load_set(size: int, first: int, last: int):
    path = outside_data(f"uniform/mvmoe_cvrp{size}_uniform_0-499.npz")
    weights = outside_data(BACKBONE)
    if path is None or weights is None:
        raise SystemExit("This benchmark needs the outside weights and the mvmoe uniform sets.")
    return weights, read_instances(path)[first:last]


def measure(policy, instances) -> float:
    return mean_gap(Solver(policy, progress=False).solve(instances, augment=False))[0]


def train(options: dict, seed: int, epochs: int) -> tuple[float, float, float]:
    """Gap before training at both sizes, and after it at the new one."""
    weights, other = load_set(SIZE, 100, 228)
    _, own = load_set(OWN_SIZE, 100, 132)
    backbone = load_backbone(weights, num_heads=8, normalization="instance")
    torch.manual_seed(seed)
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, num_prompts=1, **options))
    before = measure(policy, own), measure(policy, other)
    model = PromptPOMO(
        MultiTaskCVRPEnv(f"{SIZE}-uniform", check_solution=False),
        policy,
        Sequential([f"{SIZE}-uniform"]),
        lr_milestones=(0.7, 0.9),
        seed=seed,
        batch_size=32,
        train_data_size=256,
        optimizer_kwargs={"lr": 0.03, "weight_decay": 1e-6},
    )
    quiet_trainer(
        max_epochs=epochs, limit_val_batches=0, enable_progress_bar=False, callbacks=[]
    ).fit(model)
    return *before, measure(policy, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=24)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(title=f"gap to HGS in %, {arguments.epochs * 256} instances of training each")
    table.add_column("start")
    for column in (f"n={OWN_SIZE} before", f"n={SIZE} before", f"n={SIZE} after, by seed"):
        table.add_column(column, justify="right")
    for name, options in STARTS.items():
        runs = [train(options, seed, arguments.epochs) for seed in range(arguments.seeds)]
        own, other = (sum(run[i] for run in runs) / len(runs) for i in (0, 1))
        after = ", ".join(f"{run[2]:.2f}" for run in runs)
        table.add_row(name, f"{own:.2f}", f"{other:.2f}", after)
        print(name, runs, flush=True)
    Console().print(table)


if __name__ == "__main__":
    main()
