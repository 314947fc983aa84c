import json
import subprocess
import sys

from pathlib import Path

import numpy as np
import pytest

from rl4co_prompt import PromptPool
from rl4co_prompt.cli import app
from rl4co_prompt.tasks.vrplib import read_sol
from tests.cli.conftest import run


@pytest.mark.parametrize("statement", ["import rl4co_prompt", "import rl4co_prompt.cli"])
def test_importing_loads_nothing_heavy(statement):
    code = (
        f"{statement}; import sys; print({{'torch', 'rl4co.envs', 'sklearn'}} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout.strip() == "set()", result.stderr


def test_public_names_load_on_first_use():
    import rl4co_prompt

    for name in rl4co_prompt.__all__:
        assert getattr(rl4co_prompt, name).__name__ == name
    assert set(rl4co_prompt.__all__) <= set(dir(rl4co_prompt))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rl4co_prompt.nothing  # noqa: B018


def test_tasks_are_listed():
    assert run(app, ["tasks"]).stdout.splitlines()[340].split()[:2] == ["340", "200-gm-7-50"]
    assert len(run(app, ["tasks", "--unseen"]).stdout.splitlines()) == 12


def test_keys_makes_a_pool_and_info_shows_it(weights, tmp_path):
    out = str(tmp_path / "pool.safetensors")
    options = ["--num-prompts", "4", "--groups", "2", "--per-task", "8", "--feature", "paper"]
    made = run(
        app, ["keys", weights, "--out", out, *options, "--task", "10-uniform", "--task", "12-grid"]
    )

    assert made.exit_code == 0, made.output
    assert PromptPool.load(out).tasks == ("10-uniform", "12-grid")
    shown = run(app, ["info", out])
    assert "4 prompts x 2 layers x 5 tokens x 16" in shown.stdout
    assert "feature   paper" in shown.stdout


def test_info_shows_the_pool_that_ships():
    assert "16 prompts x 6 layers x 5 tokens x 128" in run(app, ["info", "cvrp"]).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "none.safetensors"], "No prompt pool at none.safetensors"),
        (["keys", "none.pt", "--out", "a.safetensors"], "No backbone weights at none.pt"),
        (["keys", "none.pt", "--out", "a.pt"], "a.pt must end in .safetensors"),
        (["keys", "none.pt", "--out", "a.safetensors", "--seed", "-1"], "The seed must be from 0"),
        (["solve", "none.vrp"], "No file or folder at none.vrp"),
        (["evaluate", "--suite", "none"], "Unknown suite 'none'"),
        (["evaluate", "--method", "prompt", "--weights", "a"], "The method prompt needs prompts"),
        (["evaluate", "--report", "page.pdf"], "page.pdf must be a file that ends in .html"),
        (["evaluate", "--suite", "9-grid", "--reference", "x"], "Unknown reference solver 'x'"),
        (["compare", "--seconds", "soon"], "--seconds takes numbers by commas"),
        (["generate", "cvrplib", "--out", "x"], "A, B, P, X, XML can't be generated"),
        (["explain", "none.vrp", "--pool", "p"], "No file or folder at none.vrp"),
    ],
)
def test_bad_input_ends_with_one_sentence(arguments, message):
    result = run(app, arguments)

    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {message}")
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_solve_prints_writes_and_draws(files, weights, tmp_path):
    out, pictures = tmp_path / "out", tmp_path / "pictures"
    arguments = ["solve", *files, "--weights", weights, "--out", str(out), "--plot", str(pictures)]
    result = run(app, [*arguments, "--json"])
    found = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert [one["name"] for one in found] == [f"9-cluster-{i}" for i in range(3)]
    assert found[0]["gap"] == pytest.approx(found[0]["cost"] / 1.5 - 1)
    assert found[1]["gap"] is None
    cost, routes = read_sol(out / "9-cluster-1.sol")
    assert (cost, routes) == (pytest.approx(found[1]["cost"]), found[1]["routes"])
    assert len(list(pictures.glob("*.png"))) == 3
    again = run(app, arguments)
    assert again.exit_code == 1
    assert "9-cluster-0.sol is there already" in again.stderr
    shown = run(app, [*arguments, "--force"]).stdout
    assert f"{found[0]['cost']:.4f}" in shown
    assert f"{100 * found[0]['gap']:.2f}" in shown


def test_a_broken_file_does_not_stop_the_others(files, weights, tmp_path):
    Path(files[1]).write_text("NAME : broken")
    result = run(app, ["solve", str(tmp_path / "files"), "--weights", weights, "--json"])

    assert result.exit_code == 1
    assert [one["name"] for one in json.loads(result.stdout)] == ["9-cluster-0", "9-cluster-2"]
    assert "is not a CVRP file: it lacks NODE_COORD_SECTION" in result.stderr


def test_names_in_files_stay_in_the_folder(files, weights, tmp_path):
    text = Path(files[0]).read_text()
    for i, name in enumerate(("../../evil", "a", "a_2", "a", "[red]x[/red]", "$x^{$", "")):
        Path(files[0]).with_name(f"{i}.vrp").write_text(text.replace("9-cluster-0", name))
    for file in files:
        Path(file).unlink()
    out = tmp_path / "out"
    result = run(app, ["solve", str(tmp_path / "files"), "--weights", weights, "--out", str(out),
                       "--plot", str(tmp_path / "pictures")])  # fmt: skip

    assert result.exit_code == 0, result.output
    names = sorted(path.stem for path in out.iterdir())
    assert names == ["6", "a", "a_2", "a_3", "evil", "red_x_red", "x"]
    assert "[red]x[/red]" in result.stdout


@pytest.mark.parametrize("given", ["folder", "file"])
def test_solve_does_not_write_beside_the_instances(files, weights, given):
    """The next run would take its own .sol for the best known one."""
    folder = Path(files[0]).parent
    before = sorted(folder.iterdir())
    what = {"folder": str(folder), "file": files[1]}[given]
    out = str(folder / ".." / folder.name)  # spelt otherwise
    result = run(app, ["solve", what, "--weights", weights, "--out", out, "--force"])

    assert result.exit_code == 1
    assert "holds the instances; name another folder for the solutions." in result.stderr
    assert sorted(folder.iterdir()) == before


def test_names_that_differ_only_in_case_get_different_files(files, weights, tmp_path):
    """Some disks do not tell them apart."""
    for file, name in zip(files, ("depot", "Depot", "DEPOT"), strict=True):
        lines = Path(file).read_text().splitlines(keepends=True)
        Path(file).write_text("".join([f"NAME : {name}\n", *lines[1:]]))
    out = tmp_path / "out"
    result = run(app, ["solve", *files, "--weights", weights, "--out", str(out)])

    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [
        "DEPOT_3.sol",
        "Depot_2.sol",
        "depot.sol",
    ]


def test_fleet_limits_and_late_policies_are_shown(files, weights):
    text = Path(files[0]).read_text()
    Path(files[0]).write_text(text.replace("CAPACITY :", "VEHICLES : 1\nCAPACITY :"))
    shown = run(app, ["solve", files[0], "--weights", weights, "--time-limit", "1e-9"])

    assert "of 1 allowed" in shown.stdout
    assert "nearest" in shown.stdout
    assert "Note: The time limit ended before the policy reached 1 of 1" in shown.stderr


def test_evaluate_writes_every_form(weights, policy, tmp_path):
    pool = str(policy.save(tmp_path / "pool.safetensors"))
    data = tmp_path / "set.npz"
    run(app, ["generate", "9-cluster", "--out", str(data), "--count", "3"])
    with np.load(data) as arrays:
        np.savez(data, **arrays, hgs_cost=np.full(3, 2.0))
    outputs = [tmp_path / name for name in ("a.csv", "a.md", "a.html")]
    arguments = ["evaluate", "--suite", str(data), "--weights", weights, "--pool", pool,
                 "--method", "backbone,prompt,prompt-top2", "--augment"]  # fmt: skip
    files = ["--csv", str(outputs[0]), "--markdown", str(outputs[1]), "--report", str(outputs[2])]
    result = run(app, [*arguments, *files])
    record = json.loads(run(app, [*arguments, "--json"]).stdout)

    assert result.exit_code == 0, result.output
    gaps = [f"{row['mean_gap']:.2f}" for row in record["rows"]]
    assert len(gaps) == 6
    for text in (result.stdout, outputs[1].read_text(), outputs[2].read_text()):
        assert all(gap in text for gap in gaps)
    assert len(outputs[0].read_text().splitlines()) == 7


def test_compare_shows_equal_times(weights):
    arguments = ["compare", "--suite", "9-grid", "--limit", "2", "--weights", weights]
    result = run(app, [*arguments, "--method", "backbone", "--seconds", "0.05,0.1", "--json"])
    rows = json.loads(result.stdout)[0]["rows"]

    assert [row["seconds_allowed"] for row in rows] == [0.05, 0.1]
    assert all(len(row["costs"]) == 2 for row in rows)
    assert "0.05 s" in run(app, [*arguments, "--method", "backbone", "--seconds", "0.05"]).stdout


def test_explain_names_the_nearest_keys(files, weights, policy, tmp_path):
    pool = str(policy.save(tmp_path / "pool.safetensors"))
    arguments = ["explain", *files, "--weights", weights, "--pool", pool]
    found = json.loads(run(app, [*arguments, "--json"]).stdout)

    assert [len(one["keys"]) for one in found] == [4, 4, 4]
    assert f"{found[0]['keys'][0]} ({found[0]['distances'][0]:.3f})" in run(app, arguments).stdout


@pytest.mark.parametrize(
    "command",
    ["tasks", "generate", "evaluate", "compare", "keys", "info", "solve", "explain"],
)
def test_every_command_has_an_example_and_json(command):
    shown = run(app, [command, "--help"], env={"COLUMNS": "200"}).stdout

    assert f"Example: rl4co-prompt {command}" in shown
    assert "--json" in shown


def test_the_program_starts_without_rl4cos_local_search():
    """Compiling it takes seconds, at every start."""
    code = (
        "import sys; sys.argv = ['rl4co-prompt', 'tasks']; from rl4co_prompt.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "from rl4co.envs.routing.tsp import env; print(env.local_search)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout.endswith("None\n"), result.stderr
