"""Learning curves of runs, drawn from their logs: cost on each validation set against instances.

    python -m rl4co_prompt.run experiment=baselines/omni_cpu hydra.run.dir=logs/omni
    python benchmarks/curves.py logs/omni logs/pomo --out curves.png

Prints the first and the last value of each curve, too.
"""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import pandas as pd
import typer

from matplotlib.axes import Axes
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

METRIC = "val/max_reward"


def read_curve(run: Path) -> pd.DataFrame:
    """A row per validation, indexed by epoch, a column per set: mean cost of the best start."""
    log = run / "csv" / "version_0" / "metrics.csv"
    if not log.is_file():
        raise SystemExit(f"{run} has no log at {log}; give a folder of a run that has validated.")
    table = pd.read_csv(log)
    names = [name for name in table.columns if name.startswith(METRIC)]
    curve = -table.dropna(subset=names).set_index("epoch")[names]
    return curve.rename(columns=lambda name: name.removeprefix(METRIC).strip("/") or "validation")


def instances_per_epoch(run: Path) -> int:
    """As the run's config has them; Omni's inner steps take as many again."""
    model = OmegaConf.load(run / ".hydra" / "config.yaml").model
    return model.train_data_size * (2 if model._target_.endswith("Omni") else 1)


def plot_curve(ax: Axes, instances: pd.Index, costs: pd.Series, label: str) -> Axes:
    ax.plot(instances, costs, "o-", markersize=3, label=label)
    return ax


def main(
    runs: Annotated[list[Path], typer.Argument(help="folders of runs")],
    out: Annotated[Path, typer.Option(help="picture")] = Path("curves.png"),
) -> None:
    curves = {run.name: read_curve(run) for run in runs}
    sets = sorted({name for curve in curves.values() for name in curve.columns})
    figure, axes = plt.subplots(1, len(sets), figsize=(5 * len(sets), 3.6), squeeze=False)
    table = Table("run", "set", "instances", "first cost", "last cost")
    for run in runs:
        curve = curves[run.name]
        instances = (curve.index.astype(int) + 1) * instances_per_epoch(run)
        for ax, name in zip(axes[0], sets, strict=True):
            if name in curve:
                plot_curve(ax, instances, curve[name], run.name)
                first, last = (f"{curve[name].iloc[i]:.3f}" for i in (0, -1))
                table.add_row(run.name, name, f"{instances[0]:,} to {instances[-1]:,}", first, last)
    for ax, name in zip(axes[0], sets, strict=True):
        ax.set(title=name, xlabel="instances", ylabel="mean cost, all starts")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(out, dpi=150)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
