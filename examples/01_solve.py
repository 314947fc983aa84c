"""Solve generated instances of several maps with a frozen backbone, and draw one of each.

make solve        or        python examples/01_solve.py
"""

import time

from pathlib import Path

import matplotlib
import torch

from helpers import get_backbone, plot_routes, solve
from rich.console import Console
from rich.table import Table

from rl4co_prompt import MultiTaskCVRPEnv, Task

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COUNT = 16
PICTURE = Path("outputs/01_solve.png")


def main() -> None:
    backbone, size = get_backbone()
    table = Table(title=f"{COUNT} instances of {size} customers: mean cost of the best tour")
    for column in ("map", "n starts", "n starts x 8 copies", "seconds"):
        table.add_column(column, justify="left" if column == "map" else "right")
    figure, axes = plt.subplots(1, 4, figsize=(14, 4))
    for ax, name in zip(axes, ("uniform", "gm-3-10", "explosion", "grid"), strict=True):
        env = MultiTaskCVRPEnv(Task(size, name))
        instances = env.generator(COUNT, rng=0)
        begin = time.perf_counter()
        cost, _ = solve(backbone, env, instances)
        augmented, tours = solve(backbone, env, instances, augment=True)
        seconds = time.perf_counter() - begin
        table.add_row(name, f"{cost.mean():.3f}", f"{augmented.mean():.3f}", f"{seconds:.1f}")
        plot_routes(ax, instances[0], tours[0], f"{name}: {augmented[0]:.2f}")
    Console().print(table)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    print(f"Routes drawn in {PICTURE}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
