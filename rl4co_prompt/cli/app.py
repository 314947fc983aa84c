"""The application that the commands belong to, and how they speak."""

import json
import warnings

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rl4co_prompt.evaluation.table import Table

app = typer.Typer(
    help="Prompt learning for generalised vehicle routing with RL4CO.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
Weights = Annotated[str, typer.Option(help="file of the frozen model, or the name cvrp")]
Heads = Annotated[int, typer.Option(help="of POMO-format weights, which do not tell")]
Device = Annotated[str | None, typer.Option(help="such as cpu or cuda; a GPU where there is one")]


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Bad input ends with its sentence, not with a traceback; warnings are notes."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            yield
    except typer.Exit:
        raise
    except (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError) as error:
        typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from None


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def print_tables(*tables: "Table") -> None:
    """To fit a terminal; as wide as they are where a file or a program reads them."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=1_000)
    for table in tables:
        if table.title:
            console.print(table.title, style="italic", markup=False, highlight=False)
        for part in table.rich(console.width):
            console.print(part)


def _note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        typer.echo(f"Note: {message}", err=True)
