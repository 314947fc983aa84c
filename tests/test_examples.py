"""Every example runs to its end on a tiny model."""

import importlib.util
import sys

from pathlib import Path

import pytest
import torch

from rl4co_prompt import MultiTaskCVRPEnv, PromptPool, TaskGenerator

FOLDER = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def load(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.chdir(tmp_path)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"example_{name[:2]}", FOLDER / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_solve_prints_costs_and_draws_routes(load, monkeypatch, backbone, capsys):
    example = load("01_solve.py")
    monkeypatch.setattr(example, "get_backbone", lambda: (backbone, 10))
    example.main()

    assert "explosion" in capsys.readouterr().out
    assert example.PICTURE.stat().st_size > 10_000


def test_prompts_work_reports_the_curve(load, monkeypatch, backbone, capsys):
    example = load("02_prompts_work.py")
    instances = TaskGenerator("10-uniform")(8, rng=0)
    instances["reference"] = torch.ones(8)
    monkeypatch.setattr(example, "SIZE", 10)
    monkeypatch.setattr(example, "get_backbone", lambda: (backbone, 20))
    monkeypatch.setattr(example, "test_instances", lambda *args: instances)
    monkeypatch.setattr(sys, "argv", ["02", "--epochs", "2", "--instances", "4", "--out", "here"])
    example.main()

    assert "with prompts" in capsys.readouterr().out
    assert len(Path("here/02_curve.csv").read_text().splitlines()) == 4
    assert Path("here/02_prompts_work.png").stat().st_size > 10_000
    assert PromptPool.load("here/02_pool.safetensors").num_prompts == 2


def test_the_best_tour_has_the_best_cost(load, backbone):
    """The helper's cost belongs to its tour, also over symmetry copies."""
    load("01_solve.py")
    from helpers import solve

    env = MultiTaskCVRPEnv("10-cluster")
    td = env.generator(5, rng=1)
    plain, augmented = (solve(backbone, env, td, augment) for augment in (False, True))
    for cost, tour in (plain, augmented):
        assert torch.allclose(-env.get_reward(env.reset(td), tour), cost, atol=1e-5)
    assert (augmented[0] <= plain[0] + 1e-6).all()


def test_hgs_gives_reference_costs(load):
    pytest.importorskip("hygese")
    load("01_solve.py")
    from helpers import hgs_cost

    line = TaskGenerator("2-uniform")(1, rng=0)[0]
    line["depot"], line["locs"] = torch.zeros(2), torch.tensor([[0.5, 0.0], [1.0, 0.0]])

    assert hgs_cost(line, seconds=0.05) == pytest.approx(2.0)
