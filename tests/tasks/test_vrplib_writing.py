"""Writing .vrp and .sol files, and reading them back."""

import os

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.vrplib import read_sol, read_vrp, write_sol, write_vrp
from tests.tasks.toy import facts


@pytest.mark.parametrize("cost", [784, 784.0, 0.1, 12345.678901234567, 1e-05, 3e20])
def test_a_written_solution_is_read_back(tmp_path, cost):
    routes = [[3, 1], [2]]
    path = write_sol(routes, cost, tmp_path / "deep" / "folder" / "x.sol")

    assert read_sol(path) == (cost, routes)


def test_a_written_solution_looks_as_cvrplib_writes_it(tmp_path):
    path = write_sol(((3, np.int64(1)), (2,)), 784.0, tmp_path / "x.sol")

    assert path.read_text() == "Route #1: 3 1\nRoute #2: 2\nCost 784\n"


@pytest.mark.parametrize("fails", ["replace", "chmod"])
def test_nothing_is_left_behind_when_writing_fails(tmp_path, monkeypatch, fails):
    path = tmp_path / "x.sol"
    path.write_text("before")

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="disk full"):
        write_sol([[1]], 1.0, path)

    assert [file.name for file in tmp_path.iterdir()] == ["x.sol"]
    assert path.read_text() == "before"


def test_a_name_that_is_no_text_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="surrogates"):
        write_vrp(Instance([[0, 0], [1, 1]], [1], 1, name="\ud800"), tmp_path / "x.vrp")

    assert list(tmp_path.iterdir()) == []


COORDINATE = st.one_of(
    st.integers(-1000, 1000),
    st.floats(0, 1),
    st.floats(-1e12, 1e12),
    st.sampled_from([0.0009615505794944301, 1e-300, -0.0, 1e12, 5e-324, 0.1]),
)
AMOUNT = st.one_of(st.integers(1, 10**6), st.sampled_from([0.1, 1.25, 1e12, 1e-7, 123456.789]))


@st.composite
def instances(draw):
    size = draw(st.integers(1, 5))
    capacity = draw(AMOUNT)
    pairs = st.lists(st.tuples(COORDINATE, COORDINATE), min_size=size + 1, max_size=size + 1)
    parts = st.sampled_from([0, 1, 0.5, 0.125, 0.1, 1 / 3])
    return Instance(
        coordinates=draw(pairs),
        demand=[draw(parts) * capacity for _ in range(size)],
        capacity=capacity,
        name=draw(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)),
        rounding=draw(st.sampled_from(["none", "nearest", "up", "down"])),
        reference=draw(st.none() | st.floats(1e-9, 1e18) | st.integers(1, 10**9)),
        max_routes=draw(st.none() | st.integers(1, 50)),
    )


@settings(max_examples=400, deadline=None, derandomize=True)
@given(instance=instances())
def test_what_is_written_is_read_back(tmp_path_factory, instance):
    path = tmp_path_factory.getbasetemp() / "again.vrp"
    again = read_vrp(write_vrp(instance, path))

    assert again.digest == instance.digest
    assert facts(again) == facts(instance)
    assert again.name == (" ".join(instance.name.split()) or "again")
    assert again.reference == instance.reference


@pytest.mark.parametrize("seed", range(5))
def test_random_points_of_the_unit_square_are_read_back(tmp_path, seed):
    """Close to 0 they have twenty decimals."""
    rng = np.random.default_rng(seed)
    instance = Instance(rng.random((101, 2)), rng.integers(1, 10, 100), 50)

    assert read_vrp(write_vrp(instance, tmp_path / "x.vrp")).digest == instance.digest


def test_a_written_file_is_read_alike_by_the_vrplib_package(tmp_path):
    vrplib = pytest.importorskip("vrplib")
    rng = np.random.default_rng(0)
    for rounding, kind in (("nearest", "EUC_2D"), ("none", "EXACT_2D")):
        points = rng.integers(0, 1000, (9, 2)) / (1 if rounding == "nearest" else 8)
        instance = Instance(points, rng.integers(1, 9, 8), 20, rounding=rounding, max_routes=4)
        path = write_vrp(instance, tmp_path / f"{rounding}.vrp")
        theirs = vrplib.read_instance(path, compute_edge_weights=False)

        assert theirs["node_coord"].tolist() == instance.coordinates.tolist()
        assert theirs["demand"].tolist() == [0, *instance.demand.tolist()]
        assert theirs["capacity"] == 20
        assert theirs["vehicles"] == 4
        assert theirs["depot"].tolist() == [0]
        assert theirs["edge_weight_type"] == kind


def test_a_written_solution_is_read_alike_by_the_vrplib_package(tmp_path):
    vrplib = pytest.importorskip("vrplib")
    path = write_sol([[3, 1], [2]], 784.0, tmp_path / "x.sol")
    theirs = vrplib.read_solution(path)

    assert theirs["routes"] == [[3, 1], [2]]
    assert theirs["cost"] == 784
