import pytest

from rl4co_prompt import MultiTaskCVRPEnv
from rl4co_prompt.cli import app
from rl4co_prompt.inference.inputs import read_instances
from tests.cli.conftest import run


def test_generate_does_not_overwrite_unless_forced(tmp_path):
    out, plot = str(tmp_path / "set.npz"), str(tmp_path / "set.png")
    arguments = ["generate", "9-grid", "--count", "2", "--out", out]

    assert run(app, [*arguments, "--plot", plot]).exit_code == 0
    again = run(app, arguments)
    assert again.exit_code == 1
    assert again.output.startswith(f"Error: {out} is there already; name another place")
    (tmp_path / "set.npz").unlink()
    assert run(app, [*arguments, "--plot", plot]).output.startswith(f"Error: {plot} is there")
    assert not (tmp_path / "set.npz").exists()
    assert run(app, [*arguments, "--plot", plot, "--force"]).exit_code == 0


def test_generate_writes_npz_files_and_folders_only(tmp_path):
    out = tmp_path / "x.txt"
    result = run(app, ["generate", "9-grid", "--count", "2", "--out", str(out)])

    assert result.exit_code == 1
    assert result.output == f"Error: {out} is neither an .npz file nor a folder that is there.\n"
    assert not out.exists()


def test_generate_adds_reference_costs(tmp_path, monkeypatch):
    monkeypatch.setenv("RL4CO_PROMPT_CACHE", str(tmp_path / "cache.sqlite"))
    out = tmp_path / "set.npz"
    arguments = ["generate", "9-grid", "--count", "2", "--out", str(out)]
    result = run(app, [*arguments, "--reference", "hgs", "--reference-seconds", "0.1"])
    assert result.exit_code == 0, result.output
    instances = read_instances(out)

    assert len(instances) == 2
    assert all(instance.reference > 1 for instance in instances)
    assert MultiTaskCVRPEnv.load_data(str(out))["reference"].tolist() == pytest.approx(
        [instance.reference for instance in instances]
    )
