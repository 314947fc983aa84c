"""The weights that ship do what their cards say."""

import math

import pytest

from rl4co_prompt import PromptPool, Solver, load_backbone, zoo
from rl4co_prompt.evaluation.suites import generated_set
from rl4co_prompt.policy.backbone import fingerprint
from rl4co_prompt.tasks.task import Task, training_tasks

LIMIT = 12_000_000  # bytes of all files
COUNT = 48
# Mean HGS cost (0.6 and 2 s an instance) of the first instances of seed 2022, and the card's gaps.
REFERENCES = {"50-uniform": 10.735289, "100-uniform": 15.529141}


@pytest.fixture(scope="module")
def solver():
    return Solver.from_pretrained("cvrp", progress=False)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_weights_are_whole_and_small(name):
    found = zoo.find(name)
    files = list(found.backbone.parent.glob("*.safetensors"))

    assert {found.backbone, found.pool} <= set(files)
    assert sum(file.stat().st_size for file in files) <= LIMIT
    assert all(file.with_suffix(".md").is_file() for file in files)


def test_the_backbone_is_the_papers_and_the_pool_belongs_to_it():
    found = zoo.find("cvrp")
    backbone, pool = load_backbone(found.backbone), PromptPool.load(found.pool)

    assert sum(p.numel() for p in backbone.parameters()) == 1_254_016
    assert (pool.num_prompts, pool.num_layers, pool.embed_dim) == (16, 6, 128)
    assert pool.backbone_fingerprint == fingerprint(backbone)
    assert set(pool.tasks) == {task.name for task in training_tasks()}


def test_no_outside_data_is_needed(solver, monkeypatch, tmp_path):
    monkeypatch.setenv("RL4CO_PROMPT_DATA", str(tmp_path))
    alone = Solver.from_pretrained("cvrp", pool=None, progress=False)

    assert hasattr(solver.policy, "pool")
    assert not hasattr(alone.policy, "pool")


@pytest.mark.parametrize("name", REFERENCES)
def test_the_gap_is_that_of_the_card(solver, name):
    """Within four standard errors of the mean over the instances."""
    instances = generated_set(name, Task.from_name(name), COUNT, 2022).instances
    costs = [x.cost for x in solver.solve(list(instances), 1, False)]
    mean = sum(costs) / COUNT
    error = math.sqrt(sum((cost - mean) ** 2 for cost in costs)) / COUNT
    gap = 100 * (mean / REFERENCES[name] - 1)

    assert 0 < gap < GAPS[name]
    assert error < mean


GAPS = {"50-uniform": 3.9, "100-uniform": 3.9}


def test_an_unknown_name_is_no_weights():
    assert zoo.find("tsp") is None
    with pytest.raises(FileNotFoundError, match="No weights at tsp; give a file, or the name cvrp"):
        Solver.from_pretrained("tsp")
