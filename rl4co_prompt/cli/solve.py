"""Commands that solve instances or tell what a policy would do with them."""

import re

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rl4co_prompt.cli.app import (
    Device,
    Force,
    Heads,
    Json,
    Norm,
    Outputs,
    Weights,
    app,
    check_target,
    interrupted,
    one_sentence_errors,
    print_error,
    print_json,
    print_tables,
)

if TYPE_CHECKING:
    from rl4co_prompt.inference.solution import Solution
    from rl4co_prompt.inference.solver import Solver
    from rl4co_prompt.tasks.instance import Instance

Files = Annotated[list[Path], typer.Argument(help=".vrp, .csv or .npz files, or folders of .vrp")]
Pool = Annotated[
    str, typer.Option(help="prompts: a .safetensors file; own, for those that ship; or none")
]
Capacity = Annotated[float | None, typer.Option(help="of files that do not state it")]


@app.command()
def solve(
    files: Files,
    weights: Weights = "cvrp",
    pool: Pool = "own",
    num_prompts: Annotated[int, typer.Option(help="nearest prompts that compete")] = 8,
    augment: Annotated[bool, typer.Option(help="try the eight symmetry copies")] = True,
    time_limit: Annotated[float | None, typer.Option(help="seconds for all files")] = None,
    samples: Annotated[int, typer.Option(help="passes of sampled tours after that")] = 0,
    seed: Annotated[int, typer.Option(help="of sampled tours")] = 0,
    capacity: Capacity = None,
    scaling: Annotated[str, typer.Option(help="fit, x-range or thousand")] = "fit",
    device: Device = None,
    num_heads: Heads = None,
    normalization: Norm = None,
    plot: Annotated[Path | None, typer.Option(help="folder for a picture of each")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for .sol files")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Solve instances: cost, gap to the best known cost, routes.

    Example: rl4co-prompt solve X-n101-k25.vrp --out solutions --plot pictures
    """
    with one_sentence_errors():
        from rl4co_prompt.inference.solver import Solver

        check_target(out)
        check_target(plot)
        instances, broken = _read(files, capacity)
        _keep_apart(files, out)
        targets = _targets(instances, out, force)
        solver = Solver.from_pretrained(
            weights, _pool(pool), device, num_heads, normalization, scaling=scaling
        )
        outputs, done = Outputs(), {}
        options = (num_prompts, augment, time_limit, seed)
        with _stoppable() as stopped:
            for rows in _batches(solver, instances, time_limit):
                batch = [instances[row] for row in rows]
                found = solver.solve(batch, *options, samples=samples)
                for row, solution in zip(rows, found, strict=True):
                    _write(outputs, solution, targets[row], out, plot)
                    done[row] = solution
        solutions = [done[row] for row in sorted(done)]
        if as_json:
            print_json([solution.as_dict() for solution in solutions])
        elif solutions:
            print_tables(_table(solutions))
        if stopped:
            raise interrupted(f"{len(done)} of {len(instances)} instances are solved")
        if broken or outputs.failed:
            raise typer.Exit(1)


@app.command()
def explain(
    files: Files,
    pool: Pool = "own",
    weights: Weights = "cvrp",
    capacity: Capacity = None,
    device: Device = None,
    num_heads: Heads = None,
    normalization: Norm = None,
    as_json: Json = False,
) -> None:
    """Show which keys are near an instance, how near, and which prompt it takes.

    Example: rl4co-prompt explain X-n101-k25.vrp
    """
    with one_sentence_errors():
        from rl4co_prompt.inference.explain import explain_instances
        from rl4co_prompt.inference.solver import Solver

        instances, broken = _read(files, capacity)
        solver = Solver.from_pretrained(weights, _pool(pool), device, num_heads, normalization)
        found = explain_instances(solver.policy, instances, solver.scaling)
        if as_json:
            print_json(found)
        else:
            print_tables(_nearest(found))
        if broken:
            raise typer.Exit(1)


def _pool(name: str) -> str | None:
    return None if name == "none" else name


def _read(files: list[Path], capacity: float | None) -> tuple[list["Instance"], bool]:
    """What can be read; the rest is told, and does not stop it."""
    from rl4co_prompt.inference.inputs import read_instances

    found: list[Instance] = []
    errors = []
    for file in files:
        left_out: list[tuple[str, str]] = []
        try:
            found += read_instances(file, capacity, left_out)
        except (ValueError, TypeError, OSError) as error:
            errors.append(str(error))
        errors += [why for _, why in left_out]
    for line in errors:
        print_error(line)
    if not found:
        raise typer.Exit(1)
    return found, bool(errors)


def _keep_apart(files: list[Path], out: Path | None) -> None:
    """A .sol beside its instance would be taken for the best known one next time."""
    read = [file for file in files if file.is_dir() or file.suffix.lower() == ".vrp"]
    folders = {file if file.is_dir() else file.parent for file in read}
    if out is not None and out.resolve() in {folder.resolve() for folder in folders}:
        raise ValueError(f"{out} holds the instances; name another folder for the solutions.")


def _targets(instances: list["Instance"], out: Path | None, force: bool) -> list[Path]:
    """A file name for each instance, none twice; an error before any work if one is taken."""
    from rl4co_prompt.tasks.files import check_free

    names: list[str] = []
    for instance in instances:
        stem = (
            re.sub(r"[^\w.-]+", "_", instance.name, flags=re.ASCII)[:100].strip("._") or "instance"
        )
        tries = chain([stem], (f"{stem}_{number}" for number in count(2)))
        taken = {name.casefold() for name in names}  # some disks do not tell a from A
        names.append(next(name for name in tries if name.casefold() not in taken))
    targets = [(out or Path()) / f"{name}.sol" for name in names]
    if out is not None:
        check_free(targets, force)
    return targets


def _batches(
    solver: "Solver", instances: list["Instance"], time_limit: float | None
) -> list[list[int]]:
    """What is solved before anything is written, as the solver divides it by itself.

    A time limit is for all instances, so they are solved together.
    """
    from rl4co_prompt.inference.search import instances_at_once

    if time_limit is not None:
        return [list(range(len(instances)))]
    sizes = [instance.num_customers for instance in instances]
    batches = []
    for size in sorted(set(sizes)):
        rows = [row for row, found in enumerate(sizes) if found == size]
        step = instances_at_once(solver.policy, size)
        batches += [rows[low : low + step] for low in range(0, len(rows), step)]
    return batches


@contextmanager
def _stoppable() -> Iterator[list[bool]]:
    """Ctrl-C ends the work inside, which the list then tells."""
    stopped: list[bool] = []
    try:
        yield stopped
    except KeyboardInterrupt:
        stopped.append(True)


def _write(
    outputs: Outputs, solution: "Solution", target: Path, out: Path | None, plot: Path | None
) -> None:
    if out is not None:
        outputs.write(lambda: solution.write(target))
    if plot is not None:
        outputs.write(lambda: _draw(solution, plot / f"{target.stem}.png"))


def _draw(solution: "Solution", path: Path) -> None:
    import io

    from matplotlib.figure import Figure

    from rl4co_prompt.tasks.files import write_bytes

    figure = Figure(figsize=(6, 6.3), layout="constrained", dpi=120)
    solution.plot(figure.add_subplot())
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_bytes(path, picture.getvalue())


def _table(solutions: list["Solution"]):
    import numpy as np

    from rl4co_prompt.evaluation.table import Table, as_figure

    columns = ["instance", "n", "cost", "best known", "gap %", "routes", "prompt", "copy", "s"]
    rows = []
    for s in solutions:
        reference, limit = s.instance.reference, s.instance.max_routes
        rows.append(
            [
                s.instance.name,
                str(s.instance.num_customers),
                _cost(s.cost),
                "-" if reference is None else _cost(reference),
                "-" if s.gap is None else as_figure(100 * s.gap),
                str(len(s.routes)) + ("" if s.within_fleet else f" of {limit} allowed"),
                "-" if s.prompt is None else str(s.prompt),
                str(s.copy) if s.method != "nearest" else "nearest",
                f"{s.seconds:.2f}",
            ]
        )
    known = [(s.gap, s.seconds) for s in solutions if s.gap is not None]
    if len(known) > 1:
        gap, seconds = np.mean(known, axis=0)
        mean = as_figure(100 * gap)
        rows.append([f"mean of {len(known)}", "", "", "", mean, "", "", "", f"{seconds:.2f}"])
    return Table("", columns, rows)


def _nearest(found: list[dict], shown: int = 4):
    from rl4co_prompt.evaluation.table import Table

    rows = []
    for one in found:
        pairs = zip(one["keys"][:shown], one["distances"][:shown], strict=True)
        near = [f"{key}" + ("" if d is None else f" ({d:.3f})") for key, d in pairs]
        rows.append([one["name"], str(one["customers"]), str(one["prompt"]), "  ".join(near)])
    return Table("", ["instance", "n", "prompt", "nearest keys (distance)"], rows)


def _cost(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4f}"
