import pytest
import torch

from rl4co_prompt import PromptedPolicy, PromptPool
from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.training.spread import FAR, changes, shared_part, spread_prompts
from tests.conftest import TASKS


@pytest.fixture
def gated(backbone, keys):
    torch.manual_seed(1)
    options = {"num_tokens": 2, "init_scale": 1.0, "gated": True}
    pool = PromptPool.for_backbone(backbone, 4, **options).set_keys(keys)
    return PromptedPolicy(backbone, pool).eval()


def instances(env, count=8):
    torch.manual_seed(2)
    return env.reset(batch_size=[count])


def spread(policy, **options):
    return spread_prompts(policy, TASKS, **{"steps": 40, "progress": False} | options)


def shared(policy, env):
    """Of all four prompts, on instances that nothing was fitted to."""
    with torch.no_grad():
        return shared_part(changes(policy, instances(env), torch.arange(4))[0]).item()


def test_equal_changes_share_all_and_orthogonal_ones_nothing():
    one = torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(0))

    assert shared_part(one.repeat(4, 1, 1)) == pytest.approx(1)
    assert shared_part(torch.eye(4)) == pytest.approx(0)


def test_prompts_do_different_things_afterwards(gated, env):
    before = shared(gated, env)
    spread(gated)

    assert before > 0.4
    assert shared(gated, env) < before / 3


def sizes(policy, env):
    """Of the four prompts' changes, in units of the plain output."""
    with torch.no_grad():
        found, plain = changes(policy, instances(env), torch.arange(4))
    return found.flatten(1).norm(dim=1) / plain.norm()


def test_prompts_that_are_far_come_near(gated, env):
    gated.pool.prompts.data *= 3
    before = sizes(gated, env)
    spread(gated, steps=100, lr=0.1)

    assert before.min() > 1.5 * FAR
    assert sizes(gated, env).max() < 1.5 * FAR


def test_every_gate_sets_the_same_distance(gated, env):
    spread(gated, distance=0.2)
    td = instances(env, 64)
    with torch.no_grad():
        plain = gated.backbone.encoder(td)[0]
        found = [
            (gated.encoder(td.clone().set(PROMPT, torch.full((64,), prompt)))[0] - plain).norm()
            for prompt in range(4)
        ]

    assert torch.stack(found) / plain.norm() == pytest.approx([0.2] * 4, rel=0.15)


def test_the_same_seed_gives_the_same_prompts(backbone, keys):
    pools = []
    for seed in (3, 3, 4):
        torch.manual_seed(1)
        pool = PromptPool.for_backbone(backbone, 4, 2, gated=True).set_keys(keys)
        pools.append(spread(PromptedPolicy(backbone, pool), steps=3, seed=seed).pool)

    assert torch.equal(pools[0].prompts, pools[1].prompts)
    assert torch.equal(pools[0].gate, pools[1].gate)
    assert not torch.equal(pools[0].prompts, pools[2].prompts)


def test_keys_and_backbone_stay(gated):
    before = {k: v.clone() for k, v in gated.state_dict().items()}
    spread(gated, steps=2)
    moved = {k for k, v in gated.state_dict().items() if not torch.equal(v, before[k])}

    assert moved == {"encoder.pool.prompts", "encoder.pool.gate"}
    assert all(p.requires_grad for p in gated.pool.parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": []}, "got 0 tasks, steps=200 and distance=0.1"),
        ({"steps": 0}, "steps=0"),
        ({"distance": 0.0}, "distance=0.0"),
    ],
)
def test_impossible_options_are_refused(gated, options, message):
    with pytest.raises(ValueError, match=message):
        spread_prompts(gated, **{"tasks": TASKS} | options)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [(["tsp:10-uniform"], "cvrp"), (["10-uniform", "tsp:10-uniform"], "problem")],
)
def test_tasks_of_other_problems_are_refused(gated, tasks, message):
    before = gated.pool.prompts.detach().clone()
    with pytest.raises(ValueError, match=message):
        spread_prompts(gated, tasks)

    assert torch.equal(gated.pool.prompts, before)


def test_prompts_that_change_nothing_are_refused(gated, monkeypatch):
    def none(policy, td, which):
        own, plain = changes(policy, td, which)
        return own * 0, plain

    monkeypatch.setattr("rl4co_prompt.training.spread.changes", none)
    with pytest.raises(ValueError, match="no gate can set their distance"):
        spread(gated, steps=1)


def test_prompts_without_gates_and_single_ones_are_refused(policy, backbone):
    with pytest.raises(ValueError, match="make it with gated=True"):
        spread_prompts(policy, TASKS)
    single = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, gated=True))
    with pytest.raises(ValueError, match="two prompts or more"):
        spread_prompts(single, TASKS)
