"""Prompts at work: a model trained at one size is taken to another, its weights frozen.

The backbone of n=100 is off by about 10 % at n=50. A pool of two prompts, trained by rewards on
the eleven maps of 50 customers for a few minutes on two cores, takes most of that back.

    python examples/02_prompts_work.py [--epochs 66] [--instances 256] [--out outputs]
"""

import argparse
import csv
import time

from pathlib import Path

import matplotlib
import torch

from helpers import get_backbone, mean_gap, quiet_trainer, test_instances
from lightning.pytorch.callbacks import Callback

from rl4co_prompt import MultiTaskCVRPEnv, PromptedPolicy, PromptPOMO, PromptPool, Solver, fit_keys
from rl4co_prompt.inference.solution import Solution
from rl4co_prompt.tasks.schedule import Sequential
from rl4co_prompt.tasks.task import TRAINING_GEOMETRIES
from rl4co_prompt.training.callbacks import PromptProgressBar

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIZE, COUNT = 50, 128


class Curve(Callback):
    """Gap on the test instances after each epoch; the clock runs in training only."""

    def __init__(self, solver, instances):
        self.solver, self.instances = solver, instances
        self.points = [(0.0, self.gap())]
        self.seconds = 0.0

    def gap(self) -> float:
        return mean_gap(self.solver.solve(self.instances, num_prompts=1, augment=False))[0]

    def on_train_epoch_start(self, trainer, module):
        self.begin = time.perf_counter()

    def on_train_epoch_end(self, trainer, module):
        self.seconds += time.perf_counter() - self.begin
        self.points.append((self.seconds, self.gap()))


def report(name: str, solver, instances) -> list[Solution]:
    """Print gap with 95 % interval, without and with the symmetry copies; solutions without."""
    plain = solver.solve(instances, num_prompts=1, augment=False)
    copies = solver.solve(instances, num_prompts=1)
    for label, solutions in (("  ", plain), ("x8", copies)):
        mean, error = mean_gap(solutions)
        print(f"{name:24s} {label}  {mean:5.2f} % +- {error:.2f}")
    return plain


def draw(curve: Curve, before: list[Solution], after: list[Solution], picture: Path) -> None:
    """The curve, and the routes of the instance that gained the median amount."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2))
    seconds, gaps = zip(*curve.points, strict=True)
    left.axhline(mean_gap(before)[0], color="0.5", linestyle="--", label="frozen model alone")
    left.plot(seconds, gaps, marker="o", markersize=3, label="with prompts")
    left.set(xlabel="seconds of training", ylabel="gap to HGS in %", ylim=(0, None))
    left.set_title(f"{SIZE} customers, {len(before)} instances not trained on")
    left.legend()
    left.spines[["top", "right"]].set_visible(False)
    gains = [old.gap - new.gap for old, new in zip(before, after, strict=True)]
    shown = sorted(range(len(gains)), key=gains.__getitem__)[len(gains) // 2]
    for ax, solutions, name in ((middle, before, "frozen alone"), (right, after, "prompted")):
        solution = solutions[shown]
        solution.plot(ax).set_title(f"{name}: {solution.cost:.2f} ({100 * solution.gap:+.1f} %)")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=66, help="one task each")
    parser.add_argument("--instances", type=int, default=256, help="per epoch")
    parser.add_argument("--out", type=Path, default=Path("outputs"), help="folder of the results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    backbone, trained_at = get_backbone()
    instances = test_instances(SIZE, COUNT)
    before = report(f"trained at n={trained_at}, alone", Solver(backbone), instances)

    tasks = [f"{SIZE}-{geometry}" for geometry in TRAINING_GEOMETRIES]
    torch.manual_seed(0)
    pool = PromptPool.for_backbone(backbone, num_prompts=2, gated=True)
    pool.set_keys(fit_keys(backbone, tasks, per_task=64, groups=1, clusters=2))
    policy = PromptedPolicy(backbone, pool)
    print(policy.trainable_parameters())

    solver = Solver(policy, progress=False)
    curve = Curve(solver, instances)
    model = PromptPOMO(
        MultiTaskCVRPEnv(f"{SIZE}-uniform", check_solution=False),
        policy,
        Sequential(tasks),
        lr_milestones=(0.7, 0.9),
        batch_size=32,
        train_data_size=arguments.instances,
        optimizer_kwargs={"lr": 0.03, "weight_decay": 1e-6},
    )
    callbacks = [curve, PromptProgressBar(leave=False)]
    quiet_trainer(max_epochs=arguments.epochs, limit_val_batches=0, callbacks=callbacks).fit(model)

    drawn = arguments.epochs * arguments.instances
    print(f"{curve.seconds:.0f} seconds of training on {drawn} instances")
    after = report("with prompts", solver, instances)
    with open(arguments.out / "02_curve.csv", "w", newline="") as file:
        csv.writer(file).writerows([("seconds", "gap"), *curve.points])
    draw(curve, before, after, arguments.out / "02_prompts_work.png")
    policy.save(arguments.out / "02_pool.safetensors")
    print(f"Curve, picture and pool are in {arguments.out}")


if __name__ == "__main__":
    main()
