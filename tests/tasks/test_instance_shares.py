"""Demands: exact sums, and the float32 shares that RL4CO counts with."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from rl4co_prompt.tasks.instance import FINE, Instance

SLACK = np.float32(1) + np.float32(1e-5)  # what RL4CO lets a vehicle carry


def plain(demand, capacity, **fields):
    """Customers on a line; for what has nothing to do with places."""
    return Instance([[i, 0] for i in range(len(demand) + 1)], demand, capacity, **fields)


def carried(shares):
    """How many customers in a row RL4CO lets one vehicle visit."""
    used = np.add.accumulate(np.asarray(shares, np.float32), dtype=np.float32)
    return int(np.argmax(np.append(used, np.float32(9)) > SLACK))


def test_an_overload_is_told_in_the_instances_own_unit():
    assert plain([0.5] * 3, 1.0).violation([[1, 2, 3]]) == "route 1 carries 1.5 of 1"


def test_decimal_demands_add_up_as_they_are_written():
    """In binary, ten times 0.1 is less than 1 and eleven times 0.1 is not 1.1."""
    assert plain([0.1] * 10, 1.0).violation([range(1, 11)]) is None
    assert plain([0.1] * 11, 1.1).violation([range(1, 12)]) is None
    assert plain([0.1] * 11, 1.0).violation([range(1, 12)]) is not None
    assert plain([0.7, 0.1], 0.8).violation([[1, 2]]) is None


def test_float32_demands_count_with_the_digits_they_print_with():
    demand = np.full(10, 0.1, np.float32)

    assert plain(demand, np.float32(1)).violation([range(1, 11)]) is None


@pytest.mark.parametrize(
    ("demand", "capacity"),
    [(["0.25", "1.5", "0"], "2"), (["5e-324", "1e12"], "1e12"), (["0.1", "3"], "999999999999.9")],
)
def test_whole_numbers_are_in_the_ratio_of_the_written_ones(demand, capacity):
    whole, unit = plain([float(d) for d in demand], float(capacity)).whole

    assert all(type(number) is int for number in (*whole, unit))
    assert [Fraction(d, unit) for d in whole] == [Fraction(d) / Fraction(capacity) for d in demand]


@st.composite
def loads(draw, most):
    """A capacity, and demands that together take just that or a little more."""
    capacity = draw(st.integers(1, most))
    total = capacity + draw(st.sampled_from([0, 0, 1, 1, 2, 10]))
    cuts = draw(st.lists(st.integers(0, total), max_size=60, unique=True))
    edges = sorted({0, total, *cuts})
    demand = [b - a for a, b in pairwise(edges) if 0 < b - a <= capacity]
    demand += draw(st.lists(st.integers(0, capacity), max_size=5))
    return draw(st.permutations(demand or [capacity])), capacity


@settings(max_examples=400, deadline=None, derandomize=True)
@given(loads(10**12))
def test_what_is_within_the_capacity_rl4co_lets_a_vehicle_carry(case):
    demand, capacity = case
    order = sorted(demand, reverse=True)
    within = [d for i, d in enumerate(order) if sum(order[: i + 1]) <= capacity]
    shares = plain(order, capacity).shares()[: len(within)]

    assert carried(shares) == len(within)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(loads(FINE))
def test_no_overload_passes_where_float32_counts_exactly(case):
    demand, capacity = case
    one = plain(demand, capacity)

    assert one.counts_exactly
    assert sum(demand[: carried(one.shares())]) <= capacity


@settings(max_examples=400, deadline=None, derandomize=True)
@given(loads(10**12))
def test_an_overload_that_passes_is_small(case):
    demand, capacity = case
    load = sum(demand[: carried(plain(demand, capacity).shares())])

    assert load <= capacity * (1 + 1e-4)


@pytest.mark.parametrize(
    ("demand", "capacity"),
    [([333_333] * 3, 1_000_000), ([250_000] * 4, 1_000_001), ([4_999_019, 5_001_000], 10_000_019)],
)
def test_a_vehicle_of_a_large_capacity_is_filled(demand, capacity):
    assert carried(plain([*demand, 1], capacity).shares()) >= len(demand)


@pytest.mark.parametrize("capacity", [3, 50, 100, 712, 784, 1000])
def test_customers_of_one_unit_fill_a_small_vehicle(capacity):
    assert carried(plain(np.ones(capacity + 9), capacity).shares()) == capacity


@pytest.mark.parametrize(
    ("demand", "capacity"), [(10_000, 100_000), (3e9, 9e9), (0.1, 1000), (7, 210_000)]
)
def test_customers_fill_a_large_vehicle_whose_unit_is_coarse(demand, capacity):
    number = min(round(capacity / demand), 20)
    rest = capacity - (number - 1) * demand
    filling = plain([demand] * (number - 1) + [rest], capacity)

    assert carried(filling.shares()) == number


@settings(max_examples=100, deadline=None, derandomize=True)
@given(loads(10**12))
def test_shares_are_float32_and_fit_a_vehicle_one_by_one(case):
    demand, capacity = case
    shares = plain(demand, capacity).shares()

    assert shares.dtype == np.float32
    assert (shares <= SLACK).all()
    assert (shares[np.array(demand) == 0] == 0).all()
    assert shares == pytest.approx(np.array(demand) / capacity, abs=1e-4)
