"""A small evaluation on a tiny prompted policy, and programs whose limit can be short."""

import subprocess

from dataclasses import replace

import pytest

from rl4co_prompt import PromptedPolicy, PromptPool, Solver, Task
from rl4co_prompt.evaluation.evaluate import evaluate
from rl4co_prompt.evaluation.methods import parse_methods
from rl4co_prompt.evaluation.suites import generated_set
from tests.waiting import until


def known_set(name, size, count=5, factor=0.9):
    one = generated_set(name, Task(size), count, seed=size)
    return replace(
        one,
        instances=tuple(
            replace(i, reference=factor * size, source="a rule") for i in one.instances
        ),
    )


@pytest.fixture
def sets():
    return [known_set("small", 8), known_set("large", 12, count=3)]


@pytest.fixture
def pools(backbone, policy, keys, tmp_path):
    short = PromptedPolicy(
        backbone, PromptPool.for_backbone(backbone, 4, num_tokens=1).set_keys(keys)
    )
    return [policy.save(tmp_path / "two.safetensors"), short.save(tmp_path / "one.safetensors")]


@pytest.fixture
def solver_for(backbone):
    loaded = {}

    def solver_for(method):
        if method.pool not in loaded:
            loaded[method.pool] = Solver.from_pretrained(backbone, method.pool, "cpu")
        return loaded[method.pool]

    return solver_for


@pytest.fixture
def result(sets, pools, solver_for):
    methods = parse_methods("backbone,prompt,prompt-top3", pools)
    return evaluate("small suite", sets, methods, solver_for, augment=True)


@pytest.fixture
def limit_begins_with(monkeypatch):
    """Let the time limit of programs begin only when they have made a file."""

    def begin(file):
        class Patient(subprocess.Popen):
            def communicate(self, *given):
                until(file.exists)
                return super().communicate(*given)

        monkeypatch.setattr(subprocess, "Popen", Patient)

    return begin
