import pytest

from hypothesis import given, strategies as st

from rl4co_prompt.inference.pace import Pace


def test_an_unknown_size_is_tried_with_a_few_starts():
    assert Pace().starts_within(1.0, rows=1, size=1000, wanted=1000) == 16
    assert Pace().starts_within(1.0, rows=1, size=5, wanted=5) == 5


def test_no_time_means_no_start():
    pace = Pace()
    pace.set_fixed(0.1)

    assert pace.starts_within(0.0, 1, 10, 10) == 0
    assert pace.starts_within(0.1, 1, 10, 10) == 0


@given(
    seconds=st.floats(1e-4, 100),
    left=st.floats(1e-4, 100),
    rows=st.integers(1, 100),
    size=st.integers(1, 1000),
)
def test_what_is_said_to_fit_fits(seconds, left, rows, size):
    pace = Pace()
    pace.learn(seconds, rows, size, size)
    count = pace.starts_within(left, rows, size, size)
    predicted = seconds * (count + 50) / (size + 50)

    assert 0 <= count <= size
    assert count == 0 or predicted <= left
    assert count == size or 1.25 * seconds * (count + 51) / (size + 50) > left * 0.999


def test_more_rows_take_longer():
    pace = Pace()
    pace.learn(1.0, rows=10, size=100, starts=100)

    assert pace.starts_within(2.0, 10, 100, 100) == 100
    assert pace.starts_within(2.0, 20, 100, 100) == pytest.approx(70, abs=1)
    assert pace.starts_within(0.3, 10, 100, 100) == 0


def test_an_estimate_that_let_nothing_run_is_doubted():
    pace = Pace()
    pace.set_fixed(1.0)
    pace.learn(50.0, rows=1, size=100, starts=100)
    for _ in range(12):
        if pace.starts_within(0.1, 1, 100, 100):
            break
        pace.doubt(100)

    assert pace.starts_within(0.1, 1, 100, 100) > 0
