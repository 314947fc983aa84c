"""A progress bar that appears only when there is something to wait for."""

import sys
import time

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

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
        self._label = label
        self._wanted = wanted and sys.stderr.isatty()
        self._begin = time.perf_counter()
        self._bar: Progress | None = None
        self._done = 0.0
        self.total = 1.0

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, work: float, searches: "Sequence[Search]") -> None:
        """Note that work is done."""
        self._done += work
        if not self._wanted or time.perf_counter() - self._begin < PATIENCE:
            return
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[figure]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._label, total=self.total, figure="")
            self._bar.start()
        self._bar.update(self._task, completed=self._done, figure=figure(searches))


def figure(searches: "Sequence[Search]") -> str:
    """The mean gap of what is solved so far, or the mean cost where no reference is known."""
    pairs = [
        (best.cost, instance.reference)
        for search in searches
        for instance, best in zip(search.instances, search.best, strict=True)
        if best.tour is not None
    ]
    gaps = [cost / reference - 1 for cost, reference in pairs if reference]
    if gaps:
        return f"gap {np.mean(gaps):.2%}"
    return f"cost {np.mean([cost for cost, _ in pairs]):.6g}" if pairs else ""
