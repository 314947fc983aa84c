"""Learning curves of runs, drawn from their logs: cost on each validation set against instances.

    python -m rl4co_prompt.run experiment=baselines/omni_cpu hydra.run.dir=logs/omni
    python benchmarks/curves.py logs/omni logs/pomo --out curves.png

Prints the first and the last value of each curve, too. Instances are `model.train_data_size` an
epoch, twice that for Omni, whose inner steps take as many again. Needs the extra `dev`.
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
    """A row per validation, indexed by instances, a column per set: mean cost of the best start.

    A run that was resumed has a log for each part; where two have the same epoch, the later counts.
    """
    logs = sorted(run.glob("csv/version_*/metrics.csv"), key=lambda log: int(log.parent.name[8:]))
    if not logs:
        raise SystemExit(f"{run} has no csv/version_*/metrics.csv; give a run's folder.")
    table = pd.concat(pd.read_csv(log) for log in logs)
    names = [name for name in table.columns if name.startswith(METRIC)]
    if not names:
        raise SystemExit(f"The log of {run} has no {METRIC}; the run has not validated yet.")
    curve = (
        -table.dropna(subset=names).drop_duplicates("epoch", keep="last").set_index("epoch")[names]
    )
    curve = curve.rename(columns=lambda name: name.removeprefix(METRIC).strip("/") or "validation")
    return curve.set_index((curve.index.astype(int) + 1) * instances_per_epoch(run))


def instances_per_epoch(run: Path) -> int:
    """As the run's config has them."""
    config = run / ".hydra" / "config.yaml"
    if not config.is_file():
        raise SystemExit(f"{run} has no .hydra/config.yaml; give a run's folder.")
    model = OmegaConf.load(config).model
    return model.train_data_size * (2 if model._target_.endswith("Omni") else 1)


def plot_set(ax: Axes, name: str, curves: dict[str, pd.DataFrame]) -> Axes:
    """The curves of all runs on one validation set."""
    for run, curve in curves.items():
        if name in curve:
            ax.plot(curve.index, curve[name], "o-", markersize=3, label=run)
    ax.set(title=name, xlabel="instances", ylabel="mean cost of the best start")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.legend(frameon=False)
    return ax


def main(
    runs: Annotated[list[Path], typer.Argument(help="folders of runs, each with another name")],
    out: Annotated[Path, typer.Option(help="picture")] = Path("curves.png"),
) -> None:
    """Draw and print the curves of runs."""
    curves = {run.name: read_curve(run) for run in runs}
    if len(curves) < len(runs):
        raise SystemExit(
            "Two runs have the same name; rename a folder, so that curves can be told apart."
        )
    sets = sorted({name for curve in curves.values() for name in curve.columns})
    figure, axes = plt.subplots(1, len(sets), figsize=(5 * len(sets), 3.6), squeeze=False)
    table = Table("run", "set", "instances", "first cost", "last cost")
    for ax, name in zip(axes[0], sets, strict=True):
        plot_set(ax, name, curves)
    for run, curve in curves.items():
        span = f"{curve.index[0]:,} to {curve.index[-1]:,}"
        for name in curve:
            table.add_row(run, name, span, *(f"{curve[name].iloc[i]:.3f}" for i in (0, -1)))
    figure.tight_layout()
    figure.savefig(out, dpi=150)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
