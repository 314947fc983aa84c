"""The application that the commands belong to, and how they speak."""

import json
import warnings

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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

INTERRUPTED = 130  # the exit code of programs that Ctrl-C ends

Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
Weights = Annotated[str, typer.Option(help="file of the frozen model, or the name cvrp")]
Heads = Annotated[
    int | None, typer.Option(help="where the file of weights does not tell; 8 by default")
]
Norm = Annotated[
    str | None,
    typer.Option(
        help="instance, batch or batch_no_track (Omni-VRP), where the file of weights does not tell"
    ),
]
Force = Annotated[bool, typer.Option("--force", help="write over files")]
Device = Annotated[str | None, typer.Option(help="such as cpu or cuda; a GPU where there is one")]

_EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)


@contextmanager
def one_sentence_errors(kept: str = "nothing is kept") -> Iterator[None]:
    """Bad input ends with its sentence, not with a traceback; warnings are notes.

    Args:
        kept: of an interrupted run.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise interrupted(kept) from None
    except _EXPECTED as error:
        print_error(error)
        raise typer.Exit(1) from None


def interrupted(kept: str) -> typer.Exit:
    """The end after Ctrl-C."""
    typer.echo(f"Interrupted: {kept}.", err=True)
    return typer.Exit(INTERRUPTED)


class Outputs:
    """What a run shows and writes: one that fails is told, and does not prevent the others."""

    def __init__(self) -> None:
        self.failed = False

    def write(self, write: Callable[[], Any]) -> None:
        try:
            write()
        except _EXPECTED as error:
            print_error(error)
            self.failed = True


def check_target(path: Path | None, suffix: str = "") -> None:
    """Before any work: a file with this ending, or without one a folder, can be written."""
    from rl4co_prompt.tasks.files import check_output

    if path is None:
        return
    if suffix and path.suffix != suffix:
        raise ValueError(f"{path} must be a file that ends in {suffix}.")
    check_output(path, folder=not suffix)


def print_error(error: BaseException | str) -> None:
    typer.echo(f"Error: {' '.join(str(error).split())}", err=True)


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
