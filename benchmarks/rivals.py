"""The rivals side by side: the same policy to begin with, the same tasks, instances and time.

    python benchmarks/rivals.py [--instances 128000]

A small POMO is trained on 20 uniform customers. From there POMO-Multi, Meta-POMO, Omni (first
order) and Prompt go on over three maps of 20 to 50 customers, by rewards. Prints mean gaps to HGS
on tasks that they trained on and on others, after the same number of instances and after the same
time. About 12 minutes on two cores.
"""

import argparse
import sys
import time

from copy import deepcopy
from pathlib import Path

import torch

from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
from helpers import mean_gap, quiet_trainer, train_tiny_backbone

from rl4co_prompt import MultiTaskCVRPEnv, PromptedPolicy, PromptPOMO, PromptPool, Solver, fit_keys
from rl4co_prompt.evaluation.evaluate import SolverOptions, add_references
from rl4co_prompt.evaluation.suites import load_suite
from rl4co_prompt.tasks.schedule import Random
from rl4co_prompt.tasks.task import task_grid
from rl4co_prompt.training.meta import MetaPOMO, Omni
from rl4co_prompt.training.multi_task import MultiTaskPOMO

TASKS = task_grid([20, 30, 40, 50], ["uniform", "cluster", "gm-3-10"])
TESTS = ("20-uniform", "50-uniform", "50-cluster", "50-mixed", "60-explosion")
COUNT, BATCH, EPOCHS = 64, 64, 20
INNER = 10  # steps of Meta-POMO on one task, which are its epoch


class Curve(Callback):
    """Gaps on the tests and seconds of training, after every epoch."""

    def __init__(self, sets):
        self.sets, self.points, self.spent = sets, [], 0.0

    def on_train_epoch_start(self, trainer, module):
        self.begin = time.perf_counter()

    def on_train_epoch_end(self, trainer, module):
        self.spent += time.perf_counter() - self.begin
        if (trainer.current_epoch + 1) % (trainer.max_epochs // EPOCHS) == 0:
            self.points.append((self.spent, gaps(module.policy, self.sets)))


def gaps(policy, sets):
    solver = Solver(policy, progress=False)
    return [mean_gap(solver.solve(instances, 1, False)) for instances in sets]


def test_sets():
    sets = [load_suite(name, COUNT)[0] for name in TESTS]
    return [list(one.instances) for one in add_references(sets, "hgs", SolverOptions(0.5))]


def rivals(backbone, instances):
    """Name, model and epochs of each, all with so many instances."""
    env = MultiTaskCVRPEnv(check_solution=False)
    common = {"schedule": Random(TASKS), "batch_size": BATCH, "lr_milestones": (0.8,)}
    whole = common | {"optimizer_kwargs": {"lr": 3e-4}}
    part = instances // EPOCHS
    copies = [deepcopy(backbone).train().requires_grad_(True) for _ in range(3)]
    yield (
        "POMO-Multi",
        MultiTaskPOMO(env, copies[0], task_per="batch", train_data_size=part, **whole),
        EPOCHS,
    )
    meta = MetaPOMO(env, copies[1], train_data_size=INNER * BATCH, **whole)
    yield "Meta-POMO", meta, instances // (INNER * BATCH)
    half = part // 2  # and as many for the inner steps
    omni = Omni(env, copies[2], inner_lr=1e-4, train_data_size=half, **whole)
    yield "Omni, first order", omni, EPOCHS
    torch.manual_seed(1)
    keys = fit_keys(backbone, TASKS, per_task=64, groups=2, clusters=2, progress=False)
    pool = PromptPool.for_backbone(backbone, 4, num_tokens=5, init_scale=0.1).set_keys(keys)
    prompts = common | {"optimizer_kwargs": {"lr": 1e-2}, "train_data_size": part}
    policy = PromptedPolicy(backbone, pool)
    yield "Prompt", PromptPOMO(env, policy, task_per="batch", **prompts), EPOCHS


def table(title, rows):
    shown = Table(title=title)
    for column in ("", "seconds", *TESTS):
        shown.add_column(column, justify="right" if column else "left")
    for name, seconds, figures in rows:
        shown.add_row(name, f"{seconds:.0f}", *(f"{gap:.2f} ±{half:.2f}" for gap, half in figures))
    Console().print(shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--instances", type=int, default=128_000, help="of each rival")
    options = parser.parse_args()
    unit = INNER * BATCH * EPOCHS
    if options.instances < 1 or options.instances % unit:
        parser.error(f"--instances must be a multiple of {unit:,}, so that all get the same number")
    sets, backbone = test_sets(), train_tiny_backbone(epochs=25)
    curves = {}
    for name, model, epochs in rivals(backbone, options.instances):
        curve = Curve(sets)
        quiet_trainer(max_epochs=epochs, limit_val_batches=0, callbacks=[curve]).fit(model)
        curves[name] = curve.points
    before = ("before", 0.0, gaps(backbone, sets))
    after = [(name, *points[-1]) for name, points in curves.items()]
    title = f"mean gap to HGS in %, ± 95 %, {COUNT} instances of each test"
    table(f"{title}; after {options.instances:,} instances", [before, *after])
    least = min(points[-1][0] for points in curves.values())
    in_time = [
        (name, *max((p for p in points if p[0] <= least * 1.02), key=lambda p: p[0]))
        for name, points in curves.items()
        if points[0][0] <= least * 1.02
    ]
    table(f"{title}; after {least:.0f} s of training", [before, *in_time])


if __name__ == "__main__":
    main()
