import json

import pytest
import torch

from rl4co_prompt import load_backbone
from rl4co_prompt.cli import app
from tests.cli.conftest import run
from tests.policy.reference import random_weights


@pytest.fixture
def omni(tmp_path):
    torch.save({"model_state_dict": random_weights(32, 2, 48)}, tmp_path / "omni.pt")
    return str(tmp_path / "omni.pt")


def test_import_writes_what_load_backbone_reads(omni, tmp_path):
    options = ["--num-heads", "4", "--normalization", "batch_no_track", "--name", "omni-cvrp"]
    result = run(app, ["import", omni, "--to", str(tmp_path / "to"), *options])

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("POMO: env_name cvrp, embed_dim 32")
    backbone = load_backbone(tmp_path / "to" / "omni-cvrp.safetensors")
    assert backbone.config["normalization"] == "batch_no_track"
    assert backbone.config["num_heads"] == 4


def test_import_tells_what_it_assumed(omni, tmp_path):
    result = run(app, ["import", omni, "--to", str(tmp_path), "--num-heads", "4", "--json"])
    told = json.loads(result.stdout)

    assert told["layout"] == "POMO"
    assert "batch_no_track" in told["assumed"][0]
    assert told["backbone"].endswith("omni.safetensors")


def test_an_unknown_layout_is_listed(tmp_path):
    torch.save({"lstm.weight": torch.zeros(1)}, tmp_path / "x.pt")
    result = run(app, ["import", str(tmp_path / "x.pt"), "--to", str(tmp_path)])

    assert result.exit_code == 1
    assert "unknown layout: it holds lstm.weight, ...; expected one of" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]
