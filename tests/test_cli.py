import subprocess
import sys

import pytest

from typer.testing import CliRunner

from rl4co_prompt import PromptPool, save_backbone
from rl4co_prompt.cli import app

run = CliRunner().invoke


@pytest.fixture
def weights(backbone, tmp_path):
    return str(save_backbone(backbone, tmp_path / "backbone.safetensors"))


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "none.safetensors"], "No prompt pool at none.safetensors"),
        (["keys", "none.pt", "--out", "a.safetensors"], "No backbone weights at none.pt"),
        (["keys", "none.pt", "--out", "a.pt"], "a.pt must end in .safetensors"),
    ],
)
def test_bad_input_ends_with_one_sentence(arguments, message):
    result = run(app, arguments)

    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {message}")
    assert result.exception is None or isinstance(result.exception, SystemExit)
