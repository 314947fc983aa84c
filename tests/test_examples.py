"""Every example runs to its end on a tiny model."""

import importlib.util
import sys

from dataclasses import replace
from pathlib import Path

import pytest

from rl4co_prompt import PromptPool, Solver, Task, TaskGenerator
from rl4co_prompt.evaluation.suites import generated_set
from rl4co_prompt.inference.inputs import read_instances

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


def test_solve_prints_costs_and_draws_routes(load, monkeypatch, policy, capsys):
    example = load("01_solve.py")
    monkeypatch.setattr(example, "SIZE", 10)
    monkeypatch.setattr(example.Solver, "from_pretrained", lambda name: Solver(policy))
    example.main()

    assert "explosion" in capsys.readouterr().out
    assert example.PICTURE.stat().st_size > 10_000


def test_prompts_work_reports_the_curve(load, monkeypatch, backbone, capsys):
    example = load("02_prompts_work.py")
    drawn = read_instances(TaskGenerator("10-uniform")(8, rng=0))
    instances = [replace(instance, reference=1.0) for instance in drawn]
    monkeypatch.setattr(example, "SIZE", 10)
    monkeypatch.setattr(example, "get_backbone", lambda: (backbone, 20))
    monkeypatch.setattr(example, "test_instances", lambda *args: instances)
    monkeypatch.setattr(sys, "argv", ["02", "--epochs", "2", "--instances", "4", "--out", "here"])
    example.main()

    assert "with prompts" in capsys.readouterr().out
    assert len(Path("here/02_curve.csv").read_text().splitlines()) == 4
    assert Path("here/02_prompts_work.png").stat().st_size > 10_000
    assert PromptPool.load("here/02_pool.safetensors").num_prompts == 2


@pytest.mark.parametrize("problem", ["tsp", "pdp"])
def test_other_problems_reports_rewards(load, monkeypatch, capsys, problem):
    example = load("03_other_problems.py")
    small = {"HOME": 6, "AWAY": 8, "COUNT": 4, "BACKBONE_SIZE": 8, "PROMPT_SIZE": 4}
    for name, value in small.items():
        monkeypatch.setattr(example, name, value)
    words = ["--problem", problem, "--backbone-epochs", "1", "--epochs", "3"]
    monkeypatch.setattr(sys, "argv", ["03", *words])
    example.main()

    shown = capsys.readouterr().out
    assert "frozen alone" in shown
    assert f"{problem}:8-gm-3-10" in shown


def test_instances_come_with_reference_costs(load, monkeypatch):
    pytest.importorskip("hygese")
    load("02_prompts_work.py")
    import helpers

    def tiny(name, count):
        return [generated_set(name, Task(6), count, seed=0)]

    monkeypatch.setenv("RL4CO_PROMPT_CACHE", "cache")
    monkeypatch.setattr(helpers, "load_suite", tiny)
    instances = helpers.test_instances(6, 2)

    assert all(instance.reference > 0 for instance in instances)
