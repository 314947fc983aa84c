"""Commands that measure: tables of gaps, and methods at equal time."""

import shlex
import sys

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rl4co_prompt.cli.app import (
    Device,
    Heads,
    Json,
    Norm,
    Outputs,
    Weights,
    app,
    check_target,
    one_sentence_errors,
    print_json,
    print_tables,
)

if TYPE_CHECKING:
    from rl4co_prompt.evaluation.methods import Method
    from rl4co_prompt.inference.solver import Solver

_KEPT = "the reference costs found so far are kept for the next run"

Suites = Annotated[
    list[str],
    typer.Option(
        help="uniform, zero-shot, cvrplib, one of their sets such as uniform-100, 50-cluster or X, "
        "a task such as 80-grid, a folder of .vrp files, or an .npz file; may be given again"
    ),
]
Methods = Annotated[
    str,
    typer.Option(
        "--method",
        help="rows, by commas: backbone, backbone@64 (64 passes, sampled after the greedy ones), "
        "prompt, prompt-top8, LABEL=FILE (another model), hgs, lkh3, ortools",
    ),
]
Pools = Annotated[
    list[Path] | None,
    typer.Option(
        "--pool",
        help="prompts, .safetensors or the name cvrp, instead of the weights' own, or none; may "
        "be given again",
    ),
]
Limit = Annotated[int, typer.Option(min=0, help="first instances of each set; 0 for all")]
Lkh = Annotated[str | None, typer.Option(help="the LKH-3 program, if not on PATH")]
Seed = Annotated[int, typer.Option(help="of generated sets and sampled tours")]


@app.command()
def evaluate(
    suite: Suites = ["zero-shot"],  # noqa: B006
    method: Methods = "backbone",
    augment: Annotated[bool, typer.Option(help="also rows with the eight copies")] = False,
    reference: Annotated[
        str,
        typer.Option(
            help="known: published costs only; hgs, lkh3 or ortools: solve where none is published"
        ),
    ] = "known",
    reference_seconds: Annotated[
        float | None, typer.Option(help="per instance; by default the paper's, by size")
    ] = None,
    jobs: Annotated[int, typer.Option(help="reference solves at a time")] = 1,
    cache: Annotated[Path | None, typer.Option(help="file of reference costs")] = None,
    lkh: Lkh = None,
    extra_vehicles: Annotated[
        bool, typer.Option(help="let LKH-3 use more vehicles than the demand needs")
    ] = False,
    weights: Weights = "cvrp",
    pool: Pools = None,
    limit: Limit = 100,
    seed: Seed = 2023,
    scaling: Annotated[str, typer.Option(help="fit, x-range or thousand")] = "fit",
    rounded: Annotated[
        bool, typer.Option(help="edge lengths as the files round them, or real ones")
    ] = True,
    device: Device = None,
    num_heads: Heads = None,
    normalization: Norm = None,
    paper: Annotated[bool, typer.Option(help="show the paper's figures, as printed")] = False,
    csv: Annotated[Path | None, typer.Option(help="write a .csv file")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write a .md file")] = None,
    report: Annotated[Path | None, typer.Option(help="write an .html page")] = None,
    as_json: Json = False,
) -> None:
    """Score methods on suites: the tables of the paper.

    Example: rl4co-prompt evaluate --suite cvrplib --method backbone --augment --report report.html
    """
    with one_sentence_errors(_KEPT):
        from rl4co_prompt.evaluation import evaluate as run, tables
        from rl4co_prompt.evaluation.page import page
        from rl4co_prompt.evaluation.suites import load_suites, unrounded
        from rl4co_prompt.tasks.files import write_text

        for file, suffix in ((csv, ".csv"), (markdown, ".md"), (report, ".html")):
            check_target(file, suffix)
        methods = _methods(method, pool or [], weights)
        options = run.SolverOptions(reference_seconds, jobs, lkh, cache, extra_vehicles)
        if reference != "known":
            options.solver(reference)
        sets = load_suites(suite, limit or None, seed)
        if not rounded:
            sets = [unrounded(one) for one in sets]
        solver_for = _solvers(weights, device, scaling, num_heads, normalization, methods)
        if reference != "known":
            sets = run.add_references(sets, reference, options)
        result = run.evaluate(", ".join(suite), sets, methods, solver_for, augment, seed, options)
        outputs = Outputs()
        if as_json:
            outputs.write(lambda: print_json(tables.as_dict(result, paper)))
        else:
            outputs.write(lambda: print_tables(*tables.tables(result, paper)))
        if csv is not None:
            outputs.write(lambda: write_text(csv, tables.as_csv(result, paper)))
        if markdown is not None:
            outputs.write(lambda: write_text(markdown, tables.as_markdown(result, paper)))
        if report is not None:
            outputs.write(lambda: write_text(report, page(result, paper, _command())))
        if outputs.failed:
            raise typer.Exit(1)


@app.command()
def compare(
    suite: Suites = ["uniform-100"],  # noqa: B006
    method: Methods = "hgs,ortools,backbone",
    seconds: Annotated[str, typer.Option(help="per instance, by commas")] = "0.1,1",
    cores: Annotated[int, typer.Option(help="for policies; the solvers use one")] = 1,
    lkh: Lkh = None,
    weights: Weights = "cvrp",
    pool: Pools = None,
    limit: Limit = 10,
    seed: Seed = 2023,
    device: Annotated[str, typer.Option(help="of the policies")] = "cpu",
    num_heads: Heads = None,
    normalization: Norm = None,
    as_json: Json = False,
) -> None:
    """Compare methods at the same seconds per instance, on the same cores.

    Example: rl4co-prompt compare --suite uniform-100 --seconds 0.1,1,10 --limit 20
    """
    with one_sentence_errors():
        from rl4co_prompt.evaluation.compare import compare as run, compare_rows, compare_table
        from rl4co_prompt.evaluation.suites import load_suites, without

        methods = _methods(method, pool or [], weights)
        times = _numbers(seconds)
        sets = load_suites(suite, limit or None, seed)
        solver_for = _solvers(weights, device, "fit", num_heads, normalization, methods)
        records, tables = [], []
        for one in sets:
            failed: dict[str, str] = {}
            found = run(one, methods, solver_for, times, cores, seed, lkh, failed)
            one = without(one, failed)
            left_out = [{"instance": name, "why": why} for name, why in one.left_out]
            records.append({"set": one.name, "rows": compare_rows(found), "left_out": left_out})
            tables.append(compare_table(found, one, f"{cores} core(s) of {device}"))
        if as_json:
            print_json(records)
        else:
            print_tables(*tables)


def _methods(names: str, pools: list[Path], weights: str) -> "list[Method]":
    from rl4co_prompt.evaluation.methods import parse_methods

    if pools == [Path("none")]:
        return parse_methods(names)
    return parse_methods(names, pools, weights)


def _solvers(
    weights: str,
    device: str | None,
    scaling: str,
    num_heads: int | None,
    normalization: str | None,
    methods: "Sequence[Method]",
) -> "Callable[[Method], Solver]":
    """The solver of a method; each is loaded once, now, so that weights that don't fit are told."""
    from rl4co_prompt.inference.solver import Solver

    loaded: dict[tuple, Solver] = {}

    def solver_for(method: "Method") -> "Solver":
        key = (method.weights or weights, method.pool)
        if key not in loaded:
            loaded[key] = Solver.from_pretrained(
                *key, device, num_heads, normalization, scaling=scaling
            )
        return loaded[key]

    for method in methods:
        if method.neural:
            solver_for(method)
    return solver_for


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--seconds takes numbers by commas, got {text!r}.") from None


def _command() -> str:
    return shlex.join(["rl4co-prompt", *sys.argv[1:]])
