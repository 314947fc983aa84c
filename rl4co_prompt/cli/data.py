"""Commands about tasks and instances."""

from pathlib import Path
from typing import Annotated

import typer

from rl4co_prompt.cli.app import Force, Json, app, one_sentence_errors, print_json


@app.command()
def tasks(
    unseen: Annotated[bool, typer.Option(help="the 12 test tasks instead")] = False,
    as_json: Json = False,
) -> None:
    """List the training tasks, or the unseen test tasks.

    Example: rl4co-prompt tasks --unseen
    """
    from rl4co_prompt.tasks.task import training_tasks, unseen_tasks

    found = unseen_tasks() if unseen else training_tasks()
    if as_json:
        print_json([{"name": task.name, "capacity": task.capacity} for task in found])
        return
    for index, task in enumerate(found):
        typer.echo(f"{index:3d}  {task.name:16s}  capacity {task.capacity}")


@app.command()
def generate(
    name: Annotated[str, typer.Argument(help="a task such as 80-cluster, or a suite")],
    out: Annotated[Path, typer.Option(help="a .npz file, or a folder")],
    form: Annotated[
        str, typer.Option("--format", help="in a folder: npz per set, or vrp per instance")
    ] = "npz",
    count: Annotated[int, typer.Option(help="instances of each set")] = 100,
    seed: Annotated[int, typer.Option(help="of the instances")] = 2023,
    reference: Annotated[
        str | None, typer.Option(help="add the costs that hgs, lkh3 or ortools finds")
    ] = None,
    reference_seconds: Annotated[
        float | None, typer.Option(help="per instance; the paper's by default")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="a picture of samples, .png, .svg or .pdf")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write instances of a task or a suite.

    Example: rl4co-prompt generate 80-cluster --count 20 --out cluster.npz --plot cluster.png
    """
    with one_sentence_errors():
        from rl4co_prompt.evaluation.evaluate import SolverOptions, add_references
        from rl4co_prompt.evaluation.generate import (
            check_picture,
            generate_sets,
            plot_samples,
            write_sets,
        )
        from rl4co_prompt.tasks.files import check_free

        check_picture(plot)
        check_free([plot] if plot else [], force)
        sets = generate_sets(name, count, seed)
        if reference is not None:
            sets = add_references(sets, reference, SolverOptions(reference_seconds))
        files = write_sets(sets, out, form, force)
        if plot is not None:
            files.append(plot_samples(sets, plot))
        if as_json:
            print_json({"instances": count * len(sets), "files": [str(file) for file in files]})
        else:
            shown = ", ".join(map(str, files[:3])) + (", ..." if len(files) > 3 else "")
            typer.echo(f"{count * len(sets)} instances of {len(sets)} set(s): {shown}")
