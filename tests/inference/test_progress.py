import time

import pytest

from rl4co_prompt.inference import progress
from rl4co_prompt.inference.progress import ProgressBar, figure


class Watched:
    """A terminal that keeps what it is shown."""

    def __init__(self, monkeypatch):
        self.bars = []
        monkeypatch.setattr(progress, "_watched", lambda: True)
        monkeypatch.setattr(progress, "PATIENCE", 0.05)
        monkeypatch.setattr(progress, "Progress", self.make)

    def make(self, *columns, **options):
        from rich.progress import Progress

        options["console"].quiet = True
        self.bars.append(Progress(*columns, **options))
        return self.bars[-1]


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_quick_work_shows_nothing(watched):
    with ProgressBar() as bar:
        bar.advance(1, [])
    time.sleep(0.1)

    assert watched.bars == []


def test_long_work_shows_what_is_done(watched):
    with ProgressBar(label="backbone on X") as bar:
        bar.total = 4
        bar.advance(1, [])
        time.sleep(0.2)
        bar.advance(2, [])
        task = watched.bars[0].tasks[0]
        assert (task.description, task.completed, task.total) == ("backbone on X", 3, 4)


@pytest.mark.parametrize("wanted", [True, False])
def test_without_a_terminal_or_a_wish_nothing_is_shown(watched, monkeypatch, wanted):
    if wanted:
        monkeypatch.setattr(progress, "_watched", lambda: False)
    with ProgressBar(wanted):
        time.sleep(0.1)

    assert watched.bars == []


def test_the_figure_is_the_mean_gap_or_cost():
    class Search:
        instances = [type("I", (), {"reference": r}) for r in (10.0, 20.0, 5.0)]  # noqa: RUF012
        best = [type("B", (), {"cost": c, "tour": t}) for c, t in ((11, 1), (24, 1), (0, None))]  # noqa: RUF012

    assert figure([Search]) == "gap 15.00%"
    for instance in Search.instances:
        instance.reference = None
    assert figure([Search]) == "cost 17.5"
    assert figure([]) == ""
