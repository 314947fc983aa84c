"""The weights that ship do what their cards say."""

import pytest

from rl4co_prompt import PromptedPolicy, PromptPool, Solver, load_backbone, training_tasks, zoo
from rl4co_prompt.evaluation.suites import generated_set
from rl4co_prompt.policy.backbone import fingerprint
from rl4co_prompt.tasks.task import Task

LIMIT = 12_000_000  # bytes of all files
COUNT = 48
# Mean HGS cost (0.6 and 2 s an instance) of the first instances of seed 2022, the gap of the mean
# in percent, and how far it may be off: less than its 95 % interval.
REFERENCES = {"50-uniform": (10.735289, 2.2, 0.2), "100-uniform": (15.529141, 3.0, 0.2)}


@pytest.fixture(scope="module")
def solver():
    return Solver.from_pretrained("cvrp", progress=False)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_weights_are_whole_and_small(name):
    found = zoo.find(name)
    files = list(found.backbone.parent.glob("*.safetensors"))

    assert {found.backbone, found.pool} - {None} == set(files)
    assert sum(file.stat().st_size for file in files) <= LIMIT
    assert all(file.with_suffix(".md").is_file() for file in files)


def test_the_backbone_has_the_papers_architecture():
    backbone = load_backbone("cvrp")

    assert sum(p.numel() for p in backbone.parameters()) == 1_254_016
    assert backbone.config["num_encoder_layers"] == 6


def test_the_pool_has_the_papers_keys_and_belongs_to_the_backbone():
    pool = PromptPool.load("cvrp")

    assert (pool.num_prompts, pool.num_tokens, pool.num_layers) == (16, 5, 6)
    assert pool.tasks == tuple(task.name for task in training_tasks())
    assert pool.backbone_fingerprint == fingerprint(load_backbone("cvrp"))


def test_no_outside_data_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("RL4CO_PROMPT_DATA", str(tmp_path))
    own = Solver.from_pretrained("cvrp", progress=False)
    alone = Solver.from_pretrained("cvrp", pool=None, progress=False)

    assert isinstance(own.policy, PromptedPolicy)
    assert not isinstance(alone.policy, PromptedPolicy)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_gap_is_that_of_the_card(solver, name):
    instances = generated_set(name, Task.from_name(name), COUNT, 2022).instances
    found = solver.solve(list(instances), 1, False)
    reference, gap, interval = REFERENCES[name]
    mean = sum(solution.policy_best.cost for solution in found) / COUNT

    assert 100 * (mean / reference - 1) == pytest.approx(gap, abs=interval)


def test_a_file_goes_before_a_name(monkeypatch, tmp_path):
    (tmp_path / "cvrp").write_bytes(zoo.find("cvrp").backbone.read_bytes()[:100])
    monkeypatch.chdir(tmp_path)

    assert zoo.find("cvrp") is None
    with pytest.raises(ValueError, match="cvrp"):
        load_backbone("cvrp")


def test_an_unknown_name_is_no_weights():
    assert zoo.find("tsp") is None
    with pytest.raises(
        FileNotFoundError, match="No backbone weights at tsp; give a file, or the name cvrp"
    ):
        Solver.from_pretrained("tsp")
