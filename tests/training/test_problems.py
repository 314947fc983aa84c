"""Prompts on every problem of RL4CO that they work on."""

from pathlib import Path

import pytest
import torch

from rl4co.envs import ENV_REGISTRY
from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt import PromptedPolicy, PromptPOMO, PromptPool
from rl4co_prompt.rollout.starts import count_starts, rollout_options, select_starts
from rl4co_prompt.tasks.problems import task_env
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.schedule import Sequential
from rl4co_prompt.tasks.symmetry import square_of
from tests.facts import FACTS, OTHER, SIZE, UNABLE, page
from tests.training.runs import Recorder, make_trainer

DOCS = Path(__file__).resolve().parents[2] / "docs"
NET = {"embed_dim": 16, "num_encoder_layers": 2, "num_heads": 2, "feedforward_hidden": 32}


@pytest.fixture(params=FACTS, ids=lambda fact: fact.name)
def fact(request):
    return request.param


@pytest.fixture
def policy(fact):
    return make_policy(fact.name)


def make_policy(name, num_prompts=1):
    torch.manual_seed(0)
    backbone = AttentionModelPolicy(
        env_name=name, normalization="instance", use_graph_context=False, **NET
    )
    return PromptedPolicy(backbone, PromptPool.for_backbone(backbone, num_prompts, 2)).eval()


def draw(fact, batch=3, size=SIZE):
    torch.manual_seed(1)
    return fact.env(size).generator(batch)


def solve(policy, env, batch, **options):
    with torch.no_grad():
        return policy(reset(env, batch), env, phase="test", **options)


def test_every_problem_of_rl4co_is_in_the_table():
    assert {fact.name for fact in FACTS} | set(UNABLE) == set(ENV_REGISTRY) - {
        "multi_cvrp",
        "multi_task",
    }


def test_the_page_says_what_the_tests_assert():
    assert (DOCS / "problems.md").read_text() == page(), (
        "run: python -m tests.facts > docs/problems.md"
    )


def test_one_rollout_is_a_solution(fact, policy):
    """RL4CO checks it."""
    out = solve(policy, fact.env(), draw(fact), decode_type="greedy")

    assert torch.isfinite(out["reward"]).all()
    assert out["reward"].shape == (3,)


def test_starts_are_all_that_the_problem_allows(fact):
    td = reset(fact.env(), draw(fact))
    count = count_starts(td)
    nodes = select_starts(td, None, count).view(count, -1).T
    if fact.starts == "samples":
        assert count == 1
        return
    for mask, found in zip(td["action_mask"], nodes.tolist(), strict=True):
        allowed = [node for node in mask.nonzero()[:, 0].tolist() if node or fact.nodes]
        assert sorted(set(found)) == (list(fact.nodes) if fact.nodes else allowed or [0])


def test_several_rollouts_are_solutions_from_these_starts(fact, policy):
    env, batch = fact.env(), draw(fact)
    td = reset(env, batch)
    options = rollout_options(td)
    out = solve(policy, env, batch, **options)
    count = options.get("num_starts", options.get("num_samples"))

    assert out["reward"].shape == (3 * count,)
    assert torch.isfinite(out["reward"]).all()
    assert ("num_samples" in options) == (fact.starts == "samples")
    if "num_starts" in options:
        assert torch.equal(out["actions"][:, 0], select_starts(td, env, count))


def test_an_instance_alone_is_solved_as_in_a_batch(fact, policy):
    env, batch = fact.env(), draw(fact)
    whole = solve(policy, env, batch, decode_type="greedy")
    for row in range(3):
        alone = solve(policy, env, batch[row : row + 1], decode_type="greedy")
        steps = alone["actions"].shape[1]
        assert torch.equal(alone["actions"][0], whole["actions"][row, :steps])
        assert torch.allclose(alone["reward"][0], whole["reward"][row], atol=1e-5)


def state(policy):
    """Unfitted keys are NaN, which equals nothing."""
    return {key: value.nan_to_num(7.0).clone() for key, value in policy.state_dict().items()}


def fit(model, epochs=1, callbacks=(), **options):
    make_trainer(epochs, callbacks, **options).fit(model)
    return model


@pytest.mark.parametrize("batch_size", [1, 4])
def test_training_moves_the_prompts_alone(fact, policy, batch_size):
    before = state(policy)
    options = {"train_data_size": 4, "val_data_size": 2, "test_data_size": 2}
    if fact.name == "mcp":
        batch_size = 4  # RL4CO's generator needs several
    model = PromptPOMO(fact.env(), policy, batch_size=batch_size, **options)
    fit(model)
    after = state(policy)

    assert {k for k in before if not torch.equal(after[k], before[k])} == {"encoder.pool.prompts"}


def test_a_saved_pool_gives_the_same_tours(fact, policy, tmp_path):
    env, batch = fact.env(), draw(fact)
    with torch.no_grad():
        policy.pool.prompts.uniform_(-1, 1)
    loaded = make_policy(fact.name)
    loaded.pool.load_state_dict(
        PromptPool.load(policy.save(tmp_path / "p.safetensors")).state_dict()
    )
    ours, theirs = (solve(p, env, batch, decode_type="greedy") for p in (policy, loaded))

    assert torch.equal(ours["actions"], theirs["actions"])
    assert torch.equal(ours["reward"], theirs["reward"])


def test_one_environment_takes_instances_of_two_sizes(fact, policy):
    env, batch = fact.env(), draw(fact, size=OTHER)
    ours = solve(policy, env, batch, **rollout_options(reset(env, batch)))
    nodes = reset(env, batch)["action_mask"].shape[-1]

    assert torch.isfinite(ours["reward"]).all()
    assert nodes == reset(env, draw(fact))["action_mask"].shape[-1] + OTHER - SIZE


def test_symmetry_copies_stay_in_the_square(fact, policy):
    env = fact.env()
    model = PromptPOMO(env, policy, val_data_size=2)
    td = reset(env, draw(fact))
    if not fact.turns:
        assert "locs" not in td.keys()  # noqa: SIM118
        return
    low, high = square_of(env)
    copies = model.augment(td)["locs"].view(8, 3, -1, 2)

    assert torch.allclose(copies[0], td["locs"], atol=1e-5 * high)
    assert copies.min() >= low - 1e-4 * high
    assert copies.max() <= high * (1 + 1e-4)
    lengths = [torch.cdist(copy, copy) for copy in copies]
    assert all(torch.allclose(x, lengths[0], atol=1e-3 * high) for x in lengths)


def test_validation_takes_the_best_of_copies_and_rollouts(fact, policy):
    options = {"val_data_size": 3, "test_data_size": 3, "val_batch_size": 3}
    model = PromptPOMO(fact.env(), policy, **options)
    found = make_trainer().test(model, verbose=False)[0]

    assert found["test/reward"] <= found["test/max_reward"] <= found["test/max_aug_reward"]


@pytest.mark.parametrize("name", [fact.name for fact in FACTS if fact.tasks])
def test_a_run_goes_over_sizes_and_maps(name):
    policy, recorder = make_policy(name), Recorder()
    tasks = [f"{name}:{SIZE}-cluster", f"{name}:{OTHER}-gm-3-10"]
    model = PromptPOMO(
        task_env(tasks[0]),
        policy,
        Sequential(tasks),
        val_tasks=[f"{SIZE}-uniform", f"{OTHER}-grid"],
        train_data_size=2,
        val_data_size=2,
        batch_size=2,
    )
    start = policy.pool.prompts.detach().clone()
    trainer = make_trainer(2, [recorder], limit_val_batches=1)
    trainer.fit(model)
    prefix = "" if name == "cvrp" else f"{name}:"

    assert [step["task"] for step in recorder.steps] == [
        prefix + task.partition(":")[2] for task in tasks
    ]
    assert f"val/max_reward/{prefix}{OTHER}-grid" in trainer.callback_metrics
    assert not torch.equal(policy.pool.prompts, start)
