"""Data sets of tasks and suites, as files."""

import io

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rl4co_prompt.evaluation.suites import ORIGINS, SUITES, InstanceSet, generated_set
from rl4co_prompt.tasks.files import check_free, check_output, write_bytes
from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.task import Task
from rl4co_prompt.tasks.vrplib import write_vrp

FORMATS = ("npz", "vrp")


def generate_sets(name: str, count: int, seed: int) -> list[InstanceSet]:
    """Fresh instances of a task, of a set or of all sets of a suite."""
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}.")
    names = SUITES.get(name, (name,))
    missing = [part for part in names if part in ORIGINS and ORIGINS[part].task is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} can't be generated: CVRPLIB is a fixed collection.")
    tasks = [ORIGINS[part].task if part in ORIGINS else part for part in names]
    return [
        generated_set(part, Task.from_name(str(task)), count, seed)
        for part, task in zip(names, tasks, strict=True)
    ]


def write_sets(
    sets: Sequence[InstanceSet], out: Path, form: str = "npz", force: bool = False
) -> list[Path]:
    """Write to one .npz file, or to a folder: one .npz per set or one .vrp per instance.

    Args:
        force: write over files that are there.
    """
    if form not in FORMATS:
        raise ValueError(f"Unknown format {form!r}; use one of {', '.join(FORMATS)}.")
    alone = out.suffix == ".npz" and not out.is_dir()
    if alone and (len(sets) != 1 or form != "npz"):
        raise ValueError(f"{out} is one file for one set; name a folder instead.")
    if out.suffix and not alone and not out.is_dir():
        raise ValueError(f"{out} is neither an .npz file nor a folder that is there.")
    check_output(out, folder=not alone)
    if form == "npz":
        files = {out if alone else out / f"{one.name}.npz": one.instances for one in sets}
        check_free(files, force)
        return [write_npz(instances, path) for path, instances in files.items()]
    named = {out / f"{one.name}.vrp": one for each in sets for one in each.instances}
    check_free(named, force)
    return [write_vrp(instance, path) for path, instance in named.items()]


def write_npz(instances: Sequence[Instance], path: Path) -> Path:
    """The arrays that :meth:`MultiTaskCVRPEnv.load_data` and the solver read."""
    arrays = {
        "depot": np.stack([instance.coordinates[0] for instance in instances]),
        "customers": np.stack([instance.coordinates[1:] for instance in instances]),
        "demand": np.array([instance.whole[0] for instance in instances]),
        "capacity": np.array([instance.whole[1] for instance in instances]),
    }
    references = [instance.reference for instance in instances]
    if None not in references:
        arrays["reference"] = np.array(references, dtype=np.float64)
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
    return write_bytes(path, data.getvalue())


def check_picture(path: Path | None) -> None:
    """Raise a one-sentence error for a file that can't be drawn."""
    if path is None:
        return
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{path} must end in .png, .svg or .pdf.")
    check_output(path)


def plot_samples(sets: Sequence[InstanceSet], path: Path, columns: int = 4) -> Path:
    """A picture of the first instances of each set."""
    check_picture(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.4 * columns, 2.6 * len(sets)), layout="constrained", dpi=110)
    grid = figure.subplots(len(sets), columns, squeeze=False)
    for row, one in zip(grid, sets, strict=True):
        for ax in row:
            ax.axis("off")
        for ax, instance in zip(row, one.instances, strict=False):
            plot_instance(ax, instance)
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:])
    return write_bytes(path, picture.getvalue())


def plot_instance(ax, instance: Instance):
    """Draw depot and customers, larger where they demand more."""
    xy, share = instance.coordinates, instance.demand / instance.capacity
    ax.axis("on")
    ax.scatter(*xy[1:].T, s=2 + 120 * share, color="#2a6fbb", alpha=0.7, linewidths=0)
    ax.scatter(*xy[0], s=40, marker="s", color="#d1602b", zorder=2)
    ax.set(xticks=[], yticks=[], aspect="equal")
    if xy.min() >= 0 and xy.max() <= 1:
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    ax.set_title(instance.name, fontsize=9)
    return ax
