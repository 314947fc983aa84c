import json

from pathlib import Path

import numpy as np
import pytest

from rl4co_prompt import Solver
from rl4co_prompt.cli import app
from tests.cli.conftest import run


@pytest.fixture
def sizes(files, tmp_path):
    """Instances of two sizes, the larger ones first."""
    folder = tmp_path / "small"
    result = run(app, ["generate", "5-grid", "--out", str(folder), "--count", "2",
                       "--format", "vrp", "--json"])  # fmt: skip
    return [*files, *json.loads(result.stdout)["files"]]


def interrupt_at(monkeypatch, size):
    """Let Ctrl-C come when instances of a size are solved."""
    solve = Solver.solve

    def interrupted(self, instances, *given, **options):
        if instances[0].num_customers == size:
            raise KeyboardInterrupt
        return solve(self, instances, *given, **options)

    monkeypatch.setattr(Solver, "solve", interrupted)


def test_solving_in_parts_gives_what_solving_at_once_gives(sizes, weights):
    result = run(app, ["solve", *sizes, "--weights", weights, "--samples", "2", "--json"])
    found = json.loads(result.stdout)
    expected = Solver.from_pretrained(weights, device="cpu", num_heads=2).solve(sizes, samples=2)

    assert [one["name"] for one in found] == [Path(file).stem for file in sizes]
    assert [one["cost"] for one in found] == [one.cost for one in expected]


def test_an_interrupt_keeps_what_is_solved(sizes, weights, monkeypatch, tmp_path):
    interrupt_at(monkeypatch, 9)
    out, pictures = tmp_path / "out", tmp_path / "pictures"
    result = run(app, ["solve", *sizes, "--weights", weights, "--out", str(out), "--plot",
                       str(pictures)])  # fmt: skip

    assert result.exit_code == 130
    assert result.stderr == "Interrupted: 2 of 5 instances are solved.\n"
    assert sorted(path.name for path in out.iterdir()) == ["5-grid-0.sol", "5-grid-1.sol"]
    assert len(list(pictures.iterdir())) == 2
    assert "5-grid-1" in result.stdout


def test_an_early_interrupt_says_so(sizes, weights, monkeypatch):
    interrupt_at(monkeypatch, 5)
    result = run(app, ["solve", *sizes, "--weights", weights])

    assert result.exit_code == 130
    assert result.output == "Interrupted: 0 of 5 instances are solved.\n"


def test_a_file_that_can_not_be_written_does_not_prevent_the_others(files, weights, tmp_path):
    out = tmp_path / "out"
    (out / "9-cluster-1.sol").mkdir(parents=True)
    result = run(app, ["solve", *files, "--weights", weights, "--out", str(out), "--force"])

    assert result.exit_code == 1
    assert "Error: " in result.stderr
    assert "9-cluster-1.sol" in result.stderr
    assert "9-cluster-2" in result.stdout
    assert (out / "9-cluster-2.sol").is_file()


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_folder_that_can_not_be_made_is_told_first(files, option):
    folder = str(Path(files[0]) / "out")
    result = run(app, ["solve", *files, "--weights", "none", option, folder])

    assert result.exit_code == 1
    assert result.output == f"Error: {folder} can't be written: {files[0]} is no folder.\n"


def test_a_bad_row_of_a_file_does_not_stop_the_others(weights, tmp_path):
    data = tmp_path / "set.npz"
    run(app, ["generate", "9-cluster", "--out", str(data), "--count", "3"])
    with np.load(data) as arrays:
        np.savez(data, **arrays, hgs_cost=[2.0, 0.0, 2.0])
    result = run(app, ["solve", str(data), "--weights", weights, "--json"])

    assert result.exit_code == 1
    assert [one["name"] for one in json.loads(result.stdout)] == ["set-0", "set-2"]
    assert "Error: set-1: reference must be a positive number" in result.stderr


def test_the_last_row_holds_means(files, weights):
    for file in files:
        Path(file).with_suffix(".sol").write_text("Cost 1.5\n")
    shown = run(app, ["solve", *files, "--weights", weights, "--samples", "100"]).stdout
    rows = [line.replace("│", " ").split() for line in shown.splitlines() if "9-cluster-" in line]
    last = next(line for line in shown.splitlines() if "mean of 3" in line)
    *_, gap, seconds = last.replace("│", " ").split()

    assert float(gap) == pytest.approx(sum(float(row[4]) for row in rows) / 3, abs=0.01)
    assert float(seconds) == pytest.approx(sum(float(row[-1]) for row in rows) / 3, abs=0.01)
