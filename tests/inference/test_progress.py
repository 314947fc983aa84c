from types import SimpleNamespace

import pytest

from rl4co_prompt.inference import progress
from rl4co_prompt.inference.progress import ProgressBar, figure
from tests.waiting import until


class Watched:
    """A terminal that keeps what it is shown."""

    def __init__(self, monkeypatch):
        self.bars = []
        monkeypatch.setattr(progress, "_watched", lambda: True)
        monkeypatch.setattr(progress, "Progress", self.make)

    def make(self, *columns, **options):
        from rich.progress import Progress

        options["console"].quiet = True
        self.bars.append(Progress(*columns, **options))
        return self.bars[-1]


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


@pytest.fixture
def clocks(monkeypatch):
    """The timers that were started; they ring only when told to."""
    started = []

    class Clock:
        def __init__(self, seconds, ring):
            self.ring, self.cancelled = ring, False

        def start(self):
            started.append(self)

        def cancel(self):
            self.cancelled = True

    monkeypatch.setattr(progress.threading, "Timer", Clock)
    return started


def test_quick_work_shows_nothing(watched, clocks):
    with ProgressBar() as bar:
        bar.advance(1, [])
    (clock,) = clocks
    clock.ring()  # as a clock does that rang just before it was cancelled

    assert clock.cancelled
    assert watched.bars == []


def test_long_work_shows_what_is_done(watched, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with ProgressBar(label="backbone on X") as bar:
        bar.total = 4
        bar.advance(1, [])
        until(lambda: watched.bars)
        bar.advance(2, [])
        task = watched.bars[0].tasks[0]
        assert (task.description, task.completed, task.total) == ("backbone on X", 3, 4)


def test_the_bar_begins_with_what_is_done_already(watched, clocks):
    with ProgressBar() as bar:
        bar.total = 4
        bar.advance(3, [])
        clocks[0].ring()
        assert watched.bars[0].tasks[0].completed == 3


@pytest.mark.parametrize("wanted", [True, False])
def test_without_a_terminal_or_a_wish_nothing_is_shown(watched, clocks, monkeypatch, wanted):
    if wanted:
        monkeypatch.setattr(progress, "_watched", lambda: False)
    with ProgressBar(wanted) as bar:
        bar.advance(1, [])

    assert clocks == []
    assert watched.bars == []


def test_the_figure_is_the_mean_gap_or_cost():
    references, found = (10.0, 20.0, 5.0), ((11, [1]), (24, [1]), (9, []))
    search = SimpleNamespace(
        instances=[SimpleNamespace(reference=r) for r in references],
        best=[SimpleNamespace(cost=cost, attempts=attempts) for cost, attempts in found],
    )

    assert figure([search]) == "gap 15.00%"
    for instance in search.instances:
        instance.reference = None
    assert figure([search]) == "cost 17.5"
    assert figure([]) == ""
