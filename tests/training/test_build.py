import pytest
import torch

from rl4co_prompt import save_backbone, zoo
from rl4co_prompt.training.build import build_backbone, build_policy

KEYS = {"tasks": ["10-uniform", "12-grid"], "per_task": 8, "groups": 2, "progress": False}


@pytest.fixture
def file(backbone, tmp_path):
    return save_backbone(backbone, tmp_path / "backbone.safetensors")


def test_a_new_pool_gets_as_many_keys_as_prompts(file, tmp_path):
    options = {"num_prompts": 6, "num_tokens": 3, "gated": True}
    policy = build_policy(file, None, options, KEYS, tmp_path / "cache", "greedy")

    assert policy.pool.has_keys
    assert (policy.pool.num_prompts, policy.pool.num_tokens) == (6, 3)
    assert policy.pool.gate is not None
    assert policy.train_decode_type == "greedy"
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_new_pool_may_begin_spread(file):
    spread = {"tasks": ["10-uniform"], "steps": 2, "distance": 0.3, "progress": False}
    pools = [
        build_policy(file, None, {"num_prompts": 4, "gated": True}, KEYS, spread=options).pool
        for options in (None, spread)
    ]

    assert pools[0].gate.tolist() == [0, 0, 0, 0]
    assert (pools[1].gate > 0).all()


def test_spread_prompts_need_gates(file):
    with pytest.raises(ValueError, match="set gated=true in pool_options"):
        build_policy(file, None, {"num_prompts": 4}, KEYS, spread={"tasks": ["10-uniform"]})


def test_a_saved_pool_is_taken_as_it_is(file, tmp_path):
    policy = build_policy(file, None, {"num_prompts": 2}, KEYS)
    path = policy.save(tmp_path / "pool.safetensors")

    assert torch.equal(build_policy(file, path).pool.prompts, policy.pool.prompts)


def test_one_prompt_needs_no_keys(file):
    assert not build_policy(file, None, {"num_prompts": 1}, {}).pool.has_keys


def test_groups_must_divide_the_pool(file):
    with pytest.raises(ValueError, match="num_prompts=5 can't be split into groups=2"):
        build_policy(file, None, {"num_prompts": 5}, KEYS)


def test_weights_that_ship_go_by_name(monkeypatch, file):
    monkeypatch.setattr(
        zoo, "find", lambda name: zoo.Weights(file, file) if name == "cvrp" else None
    )
    policy = build_policy("cvrp", None, {"num_prompts": 1}, {})

    assert policy.pool.embed_dim == 16
    assert build_backbone("cvrp").config["embed_dim"] == 16


def test_a_backbone_begins_at_random_or_goes_on(file):
    options = {"embed_dim": 16, "num_encoder_layers": 2, "num_heads": 2}
    fresh, loaded = build_backbone(None, options), build_backbone(file)

    assert all(p.requires_grad for p in (*fresh.parameters(), *loaded.parameters()))
    assert fresh.training
    assert loaded.training
