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

from helpers import gap, get_backbone, plot_routes, quiet_trainer, solve, test_instances
from lightning.pytorch.callbacks import Callback

from rl4co_prompt import MultiTaskCVRPEnv, PromptedPolicy, PromptPOMO, PromptPool, fit_keys
from rl4co_prompt.tasks.schedule import Sequential
from rl4co_prompt.tasks.task import TRAINING_GEOMETRIES
from rl4co_prompt.training.callbacks import PromptProgressBar

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIZE, COUNT = 50, 128


class Curve(Callback):
    """Gap on the test instances after each epoch; the clock runs in training only."""

    def __init__(self, policy, env, td):
        self.policy, self.env, self.td = policy, env, td
        self.points = [(0.0, self.gap())]
        self.seconds = 0.0

    def gap(self) -> float:
        cost, _ = solve(self.policy, self.env, self.td)
        return gap(cost, self.td["reference"]).mean().item()

    def on_train_epoch_start(self, trainer, module):
        self.begin = time.perf_counter()

    def on_train_epoch_end(self, trainer, module):
        self.seconds += time.perf_counter() - self.begin
        self.points.append((self.seconds, self.gap()))


def report(name: str, policy, env, td) -> list[float]:
    """Print gap with 95 % interval, without and with the symmetry copies."""
    means = []
    for augment in (False, True):
        gaps = gap(solve(policy, env, td, augment)[0], td["reference"])
        error = 1.96 * gaps.std() / len(gaps) ** 0.5
        means.append(gaps.mean().item())
        print(f"{name:24s} {'x8' if augment else '  '}  {gaps.mean():5.2f} % +- {error:.2f}")
    return means


def draw(curve: Curve, plain: float, before, after, td, picture: Path) -> None:
    """The curve, and the routes of the instance that gained the median amount."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2))
    seconds, gaps = zip(*curve.points, strict=True)
    left.axhline(plain, color="0.5", linestyle="--", label="frozen model alone")
    left.plot(seconds, gaps, marker="o", markersize=3, label="with prompts")
    left.set(xlabel="seconds of training", ylabel="gap to HGS in %", ylim=(0, None))
    left.set_title(f"{SIZE} customers, {len(td)} instances not trained on")
    left.legend()
    left.spines[["top", "right"]].set_visible(False)
    gain = gap(before[0], td["reference"]) - gap(after[0], td["reference"])
    shown = int(gain.argsort()[len(gain) // 2])
    for ax, (cost, tour), name in ((middle, before, "frozen alone"), (right, after, "prompted")):
        percent = gap(cost, td["reference"])[shown]
        plot_routes(ax, td[shown], tour[shown], f"{name}: {cost[shown]:.2f} ({percent:+.1f} %)")
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
    td = test_instances(SIZE, COUNT)
    env = MultiTaskCVRPEnv(f"{SIZE}-uniform", check_solution=False)
    plain = report(f"trained at n={trained_at}, alone", backbone, env, td)[0]

    tasks = [f"{SIZE}-{geometry}" for geometry in TRAINING_GEOMETRIES]
    torch.manual_seed(0)
    pool = PromptPool.for_backbone(backbone, num_prompts=2, gated=True)
    pool.set_keys(fit_keys(backbone, tasks, per_task=64, groups=1, clusters=2))
    policy = PromptedPolicy(backbone, pool)
    print(policy.trainable_parameters())

    curve = Curve(policy, env, td)
    model = PromptPOMO(
        env,
        policy,
        Sequential(tasks),
        lr_milestones=(0.7, 0.9),
        batch_size=32,
        train_data_size=arguments.instances,
        optimizer_kwargs={"lr": 0.03, "weight_decay": 1e-6},
    )
    callbacks = [curve, PromptProgressBar(leave=False)]
    quiet_trainer(max_epochs=arguments.epochs, limit_val_batches=0, callbacks=callbacks).fit(model)
    policy.eval()

    drawn = arguments.epochs * arguments.instances
    print(f"{curve.seconds:.0f} seconds of training on {drawn} instances")
    report("with prompts", policy, env, td)
    with open(arguments.out / "02_curve.csv", "w", newline="") as file:
        csv.writer(file).writerows([("seconds", "gap"), *curve.points])
    draw(curve, plain, solve(backbone, env, td), solve(policy, env, td), td,
         arguments.out / "02_prompts_work.png")  # fmt: skip
    policy.save(arguments.out / "02_pool.safetensors")
    print(f"Curve, picture and pool are in {arguments.out}")


if __name__ == "__main__":
    main()
