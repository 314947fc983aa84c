import numpy as np
import pytest

from rl4co_prompt import Solver


@pytest.fixture
def solver(policy):
    return Solver(policy)


@pytest.fixture
def csv(tmp_path):
    """Write a .csv file."""

    def write(content):
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode())
        return path

    return write


@pytest.fixture
def npz(tmp_path):
    """Write an .npz file."""

    def write(**fields):
        path = tmp_path / "set.npz"
        np.savez(path, **fields)
        return path

    return write
