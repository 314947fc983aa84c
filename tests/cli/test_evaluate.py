import json

from pathlib import Path

import pytest
import torch

from rl4co_prompt.cli import app
from rl4co_prompt.evaluation import evaluate as evaluation
from tests.cli.conftest import run
from tests.policy.reference import random_weights


@pytest.fixture
def suite(files):
    """A folder with a good file, one of a fleet that is too small, and an unreadable one."""
    text = Path(files[1]).read_text()
    Path(files[1]).write_text(text.replace("TYPE : CVRP", "TYPE : CVRP\nVEHICLES : 1"))
    Path(files[2]).write_text("NAME : broken")
    return str(Path(files[0]).parent)


def test_bad_instances_are_named_and_left_out(suite, weights, tmp_path):
    cache = ["--cache", str(tmp_path / "cache.sqlite")]
    result = run(app, ["evaluate", "--suite", suite, "--weights", weights, "--reference", "ortools",
                       "--reference-seconds", "0.05", *cache, "--json"])  # fmt: skip
    record = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert record["sets"][0]["instances"] == ["9-cluster-0"]
    assert [one["instance"] for one in record["left_out"]] == ["9-cluster-2.vrp", "9-cluster-1"]
    assert "Note: 9-cluster-1 is left out of files: a fleet of 1 can't hold" in result.stderr
    assert "Note: 9-cluster-2.vrp is left out of files: " in result.stderr


def test_compare_leaves_out_what_a_solver_fails_on(suite, weights):
    result = run(app, ["compare", "--suite", suite, "--weights", weights, "--method",
                       "backbone,ortools", "--seconds", "0.05", "--json"])  # fmt: skip
    (record,) = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert [len(row["costs"]) for row in record["rows"]] == [1, 1]
    assert [one["instance"] for one in record["left_out"]] == ["9-cluster-2.vrp", "9-cluster-1"]


def test_nothing_left_is_one_sentence(suite, weights, tmp_path):
    for name in ("9-cluster-0.vrp", "9-cluster-2.vrp"):
        (Path(suite) / name).unlink()
    result = run(app, ["evaluate", "--suite", suite, "--weights", weights, "--reference", "hgs",
                       "--cache", str(tmp_path / "cache.sqlite")])  # fmt: skip

    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "Error: No instance is left to evaluate."


@pytest.mark.parametrize(
    ("option", "name"), [("--csv", "a.csv"), ("--markdown", "a.md"), ("--report", "a.html")]
)
def test_outputs_are_checked_before_any_work(option, name, tmp_path):
    (tmp_path / "file").write_text("")
    within = tmp_path / "file" / name
    folder = tmp_path / name
    folder.mkdir()
    arguments = ["evaluate", "--suite", "none", option]

    told = run(app, [*arguments, str(within)]).output
    assert told == f"Error: {within} can't be written: {tmp_path / 'file'} is no folder.\n"
    assert (
        run(app, [*arguments, str(folder)]).output == f"Error: {folder} is a folder; name a file.\n"
    )


def test_weights_are_checked_before_references_are_solved(monkeypatch):
    monkeypatch.setattr(evaluation, "add_references", None)
    result = run(app, ["evaluate", "--suite", "9-grid", "--limit", "1", "--weights", "none",
                       "--reference", "hgs"])  # fmt: skip

    assert result.exit_code == 1
    assert result.output.startswith("Error: No backbone weights at none")


def test_an_output_that_fails_does_not_prevent_the_others(weights, monkeypatch, tmp_path):
    def broken(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("rl4co_prompt.evaluation.tables.as_csv", broken)
    outputs = {"--csv": "a.csv", "--markdown": "a.md", "--report": "a.html"}
    files = [word for key, name in outputs.items() for word in (key, str(tmp_path / name))]
    result = run(
        app, ["evaluate", "--suite", "9-grid", "--limit", "1", "--weights", weights, *files]
    )

    assert result.exit_code == 1
    assert result.stderr == "Error: the disk is full\n"
    assert sorted(path.name for path in tmp_path.glob("a.*")) == ["a.html", "a.md"]


@pytest.mark.parametrize(
    ("command", "module", "kept"),
    [
        ("evaluate", "evaluate.evaluate", "the reference costs found so far are kept for the nex"),
        ("compare", "compare.compare", "nothing is kept."),
    ],
)
def test_an_interrupt_says_what_is_kept(weights, monkeypatch, command, module, kept):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"rl4co_prompt.evaluation.{module}", interrupt)
    result = run(app, [command, "--suite", "9-grid", "--limit", "1", "--weights", weights,
                       "--method", "backbone"])  # fmt: skip

    assert result.exit_code == 130
    assert result.output.startswith(f"Interrupted: {kept}")
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("seed", [-1, 2**63, -(2**64)])
def test_any_whole_number_is_a_seed(weights, seed):
    result = run(app, ["evaluate", "--suite", "9-grid", "--limit", "1", "--weights", weights,
                       "--method", "backbone@2", "--seed", str(seed)])  # fmt: skip

    assert result.exit_code == 0, result.output


def test_extra_vehicles_are_asked_of_lkh(weights, monkeypatch):
    asked = []
    monkeypatch.setattr(
        evaluation, "add_references", lambda sets, name, options: asked.append(options)
    )
    run(app, ["evaluate", "--suite", "9-grid", "--limit", "1", "--weights", weights, "--reference",
              "lkh3", "--extra-vehicles"])  # fmt: skip

    assert asked[0].extra_vehicles


def test_suites_stand_side_by_side(weights):
    suites = ["--suite", "9-grid", "--suite", "7-cluster", "--limit", "2"]
    result = run(app, ["evaluate", *suites, "--weights", weights, "--json"])
    record = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert record["suite"] == "9-grid, 7-cluster"
    assert [one["name"] for one in record["sets"]] == ["9-grid", "7-cluster"]


def test_a_set_counts_once(weights):
    result = run(app, ["compare", "--suite", "9-grid", "--suite", "9-grid", "--weights", weights])

    assert result.output == "Error: The set 9-grid is named twice.\n"


def test_prompts_can_be_left_out():
    arguments = ["evaluate", "--suite", "9-grid", "--limit", "1", "--pool", "none", "--method"]

    assert run(app, [*arguments, "backbone"]).exit_code == 0
    assert "needs prompts; give --pool FILE" in run(app, [*arguments, "prompt"]).output


def test_the_norm_of_a_file_that_does_not_tell_is_an_option(tmp_path):
    file = tmp_path / "omni.pt"
    torch.save(random_weights(32, 2, 48), file)
    words = ["evaluate", "--suite", "9-grid", "--limit", "2", "--method", f"Omni={file}", "--json",
             "--num-heads", "4"]  # fmt: skip
    assumed = run(app, words)
    told = run(app, [*words, "--normalization", "batch_no_track"])

    assert assumed.exit_code == told.exit_code == 0, told.output
    assert "Assumed: Instance norm" in assumed.stderr
    assert "Assumed" not in told.stderr
    assert assumed.stdout != told.stdout
