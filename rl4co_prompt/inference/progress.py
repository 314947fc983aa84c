"""A progress bar that appears only when there is something to wait for."""

import sys
import threading

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from rl4co_prompt.inference.search import Search

PATIENCE = 1.0  # seconds


class ProgressBar:
    """Shows the share of the work done and the mean gap (or cost) so far, on stderr.

    Args:
        wanted: whether to show anything; without a terminal nothing is shown.
        label: of what is done.
    """

    def __init__(self, wanted: bool = True, label: str = "solving"):
        self.total = 1.0
        self._label, self._done = label, 0.0
        self._bar: Progress | None = None
        # A clock of its own: the first pass may take long, and nobody should wonder.
        self._clock = threading.Timer(PATIENCE, self._show) if wanted and _watched() else None
        self._lock = threading.Lock()

    def __enter__(self) -> "ProgressBar":
        if self._clock is not None:
            self._clock.daemon = True
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.cancel()
        with self._lock:
            self._clock = None
            if self._bar is not None:
                self._bar.stop()

    def advance(self, work: float, searches: "Sequence[Search]") -> None:
        """Note that work is done."""
        if self._clock is None:
            return
        with self._lock:
            self._done += work
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done, figure=figure(searches))

    def _show(self) -> None:
        with self._lock:
            if self._clock is None:  # over meanwhile
                return
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[figure]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._label, total=self.total, figure="")
            self._bar.update(self._task, completed=self._done)
            self._bar.start()


def _watched() -> bool:
    return sys.stderr.isatty()


def figure(searches: "Sequence[Search]") -> str:
    """The mean gap of what is solved so far, or the mean cost where no reference is known."""
    pairs = [
        (best.cost, instance.reference)
        for search in searches
        for instance, best in zip(search.instances, search.best, strict=True)
        if best.attempts  # neighbours are there from the beginning
    ]
    gaps = [cost / reference - 1 for cost, reference in pairs if reference]
    if gaps:
        return f"gap {np.mean(gaps):.2%}"
    return f"cost {np.mean([cost for cost, _ in pairs]):.6g}" if pairs else ""
