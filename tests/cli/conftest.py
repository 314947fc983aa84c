"""Weights and instances for the commands."""

import json

from pathlib import Path

import pytest

from typer.testing import CliRunner

from rl4co_prompt import save_backbone
from rl4co_prompt.cli import app

run = CliRunner().invoke


@pytest.fixture
def weights(backbone, tmp_path):
    return str(save_backbone(backbone, tmp_path / "backbone.safetensors"))


@pytest.fixture
def files(tmp_path):
    """Three instances as .vrp files, the first with a best-known cost beside it."""
    folder = tmp_path / "files"
    result = run(app, ["generate", "9-cluster", "--out", str(folder), "--count", "3",
                       "--format", "vrp", "--json"])  # fmt: skip
    names = json.loads(result.stdout)["files"]
    Path(names[0]).with_suffix(".sol").write_text("Cost 1.5\n")
    return names
