import math

import pytest

from rl4co_prompt.evaluation import tables
from rl4co_prompt.evaluation.table import as_figure, as_seconds


def test_narrow_terminals_get_the_table_in_parts(result):
    table = tables.gap_table(result)
    wide, narrow = table.rich(200), table.rich(45)

    assert len(wide) == 1
    assert len(narrow) > 1
    assert all(part.columns[0].header == "method" for part in narrow)
    headers = [c.header for part in narrow for c in part.columns[1:]]
    assert headers == table.columns[1:]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.234, "1.23"), (-1e-9, "0.00"), (-0.004, "0.00"), (-0.006, "-0.01"), (math.nan, "-")],
)
def test_figures_have_two_digits_and_no_negative_zero(value, shown):
    assert as_figure(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.01234, "0.0123"), (123.4, "123"), (12_345.6, "12346")]
)
def test_seconds_keep_the_digits_before_the_point(value, shown):
    assert as_seconds(value) == shown
