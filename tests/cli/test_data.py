from rl4co_prompt.cli import app
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
