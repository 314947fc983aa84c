import json

import pytest
import torch

from rl4co_prompt import PromptPool
from rl4co_prompt.cli import app
from tests.cli.conftest import run


@pytest.fixture
def pool(weights, tmp_path):
    out = str(tmp_path / "pool.safetensors")
    options = ["--num-prompts", "2", "--groups", "1", "--per-task", "8", "--task", "12-uniform"]
    assert run(app, ["keys", weights, "--out", out, *options]).exit_code == 0
    return out


def test_a_pool_grows_by_files(files, weights, pool, tmp_path):
    out = str(tmp_path / "grown.safetensors")
    words = [*files, "--pool", pool, "--weights", weights, "--out", out, "--name", "mine"]
    result = run(app, ["grow", *words, "--steps", "2", "--batch-size", "4", "--json"])

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["num_prompts"] == 3
    old, new = PromptPool.load(pool), PromptPool.load(out)
    assert torch.equal(new.prompts[:2], old.prompts)
    assert new.tasks == ("12-uniform", "mine")


def test_pools_merge(pool, tmp_path):
    other, out = (str(tmp_path / f"{name}.safetensors") for name in ("other", "both"))
    second = PromptPool.load(pool)
    second.prompts.data[0] += 1
    second.save(other)
    assert run(app, ["merge", pool, other, "--out", out]).exit_code == 0
    result = run(app, ["merge", pool, other, "--out", out, "--force"])

    assert result.exit_code == 0, result.output
    assert PromptPool.load(out).num_prompts == 3  # one pair is in both


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["merge", "none.safetensors", "--out", "a.pt"], "a.pt must end in .safetensors"),
        (["merge", "none.safetensors", "--out", "a.safetensors"], "at least two pools"),
        (["merge", "no", "no", "--out", "a.safetensors"], "No prompt pool at no"),
        (["grow", "x.vrp", "--pool", "no", "--out", "a.safetensors"], "No prompt pool at no"),
    ],
)
def test_bad_words_end_with_one_sentence(words, message):
    result = run(app, words)

    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_pool_that_is_there_is_not_lost(pool, files, weights, tmp_path):
    """No command writes over a file unless told to, not even over what it reads."""
    before = PromptPool.load(pool).prompts.clone()
    for words in (
        ["merge", pool, "cvrp", "--out", pool],
        ["grow", *files, "--pool", pool, "--weights", weights, "--out", pool, "--steps", "1"],
        ["keys", weights, "--out", pool, "--per-task", "8", "--task", "12-uniform"],
    ):
        result = run(app, words)
        assert result.exit_code == 1
        assert "is there already; name another place, or add --force" in result.stderr

    assert torch.equal(PromptPool.load(pool).prompts, before)
