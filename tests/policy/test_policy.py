import inspect

from copy import deepcopy

import pytest
import torch

from rl4co.data.transforms import StateAugmentation
from rl4co.envs import get_env
from rl4co.models.common.constructive.base import ConstructivePolicy
from rl4co.models.zoo.am import AttentionModelPolicy
from rl4co.utils.ops import unbatchify

from rl4co_prompt import POMOPolicy, PromptedPolicy, PromptPool, TaskGenerator, save_backbone
from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.rollout.engine import FastDecoding


@pytest.fixture
def td(env):
    return env.reset(TaskGenerator("10-uniform")(5, rng=0))


def test_forward_takes_rl4cos_arguments_in_their_order(policy, env, td):
    ours = list(inspect.signature(FastDecoding.forward).parameters)
    stock = list(inspect.signature(ConstructivePolicy.forward).parameters)
    assert [name for name in ours if name != "engine"] == stock

    by_place = policy(td, env, "test", True, False)  # calc_reward, return_actions
    assert by_place.keys() == {"reward", "log_likelihood", PROMPT}


@pytest.mark.parametrize(
    "options",
    [
        {"decode_type": "greedy"},
        {"decode_type": "sampling"},
        {"decode_type": "multistart_greedy"},
        {"decode_type": "multistart_sampling", "num_starts": 4},
        {"decode_type": "sampling", "num_samples": 3},
        {"decode_type": "beam_search", "beam_width": 3},
        {"decode_type": "greedy", "return_entropy": True, "return_sum_log_likelihood": False},
        {"decode_type": "greedy", "return_hidden": True, "return_init_embeds": True},
    ],
    ids=lambda o: "-".join(str(v) for v in o.values()),
)
def test_without_tokens_every_decode_type_is_bit_equal_to_the_backbone(
    backbone, keys, env, td, options
):
    pool = PromptPool.for_backbone(backbone, 4, num_tokens=0).set_keys(keys)
    policy = PromptedPolicy(backbone, pool).eval()
    torch.manual_seed(7)
    stock = backbone(td.clone(), env, phase="test", **options)
    torch.manual_seed(7)
    ours = policy(td, env, phase="test", **options)

    assert ours.keys() == stock.keys() | {PROMPT}
    for key, value in stock.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(ours[key], value), key


def test_evaluating_recorded_actions_gives_their_likelihood(policy, env, td):
    out = policy(td, env, decode_type="greedy")
    again = policy(td, env, actions=out["actions"])

    assert torch.allclose(out["log_likelihood"], again["log_likelihood"], atol=1e-5)


def test_the_input_is_left_as_it_was(policy, env, td):
    before = td.clone()
    policy(td, env, decode_type="greedy")

    assert set(td.keys()) == set(before.keys())
    assert (td == before).all()


def best(out, starts):
    return unbatchify(out["reward"], starts).amax(-1)


def test_several_prompts_keep_the_best_of_their_single_runs(policy, env, td):
    options = {"decode_type": "multistart_greedy", "num_starts": 10}
    ranked = policy.explain(td).keys
    single = [policy(td.copy().set(PROMPT, ranked[:, j]), env, **options) for j in range(4)]
    for k in (1, 2, 4):
        out = policy(td, env, num_prompts=k, **options)
        rewards = torch.stack([best(s, 10) for s in single[:k]])
        assert torch.equal(best(out, 10), rewards.amax(0))
        rank = rewards.argmax(0)
        assert torch.equal(out[PROMPT], ranked.gather(1, rank[:, None])[:, 0])
        # The rewards belong to the tours that are returned.
        batch = td.repeat(10)  # start-major, as RL4CO lays it out
        assert torch.allclose(env.get_reward(batch, out["actions"]), out["reward"], atol=1e-5)


def test_more_prompts_and_more_copies_never_hurt(policy, env, td):
    copies = StateAugmentation(8, "dihedral8")(td)
    found = []
    for batch, number in ((td, 1), (copies, 8)):
        for k in (1, 2, 3, 4, 9):
            out = policy(batch, env, num_prompts=k, decode_type="multistart_greedy", num_starts=10)
            found.append(unbatchify(out["reward"], (number, 10)).reshape(5, -1).amax(1))
    for better, worse in zip(found[1:5] + found[6:], found[:4] + found[5:9], strict=True):
        assert (better >= worse).all()
    for plain, augmented in zip(found[:5], found[5:], strict=True):
        assert (augmented >= plain).all()


def test_prompts_change_the_tours(policy, backbone, env, td):
    assert not torch.equal(
        policy(td, env, decode_type="greedy")["log_likelihood"],
        backbone(td.clone(), env, decode_type="greedy")["log_likelihood"],
    )


@pytest.mark.parametrize(
    "options", [{"return_hidden": True}, {"calc_reward": False}, {"actions": torch.zeros(5, 1)}]
)
def test_comparing_prompts_needs_rewards(policy, env, td, options):
    with pytest.raises(ValueError, match="num_prompts > 1 compares rewards"):
        policy(td, env, num_prompts=2, decode_type="greedy", **options)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.full((5,), 4), "prompt 4 of 4"),
        (torch.full((5,), -1), "one index"),
        (torch.zeros(5, 2), "one index"),
    ],
)
def test_a_forced_prompt_must_exist(policy, env, td, value, message):
    with pytest.raises(ValueError, match=message):
        policy(td.set(PROMPT, value.long()), env, decode_type="greedy")


def test_without_an_env_all_starts_of_the_data_run(policy, env):
    td = env.reset(TaskGenerator("25-uniform")(2, rng=0))  # RL4CO's default env has 20 nodes
    out = policy(td, decode_type="multistart_greedy")
    first = unbatchify(out["actions"], 25)[:, :, 0]

    assert first.sort(-1).values.tolist() == [list(range(1, 26))] * 2


def test_training_mode_leaves_the_backbone_in_evaluation():
    torch.manual_seed(0)
    backbone = POMOPolicy("cvrp", 16, 2, 2, 32, normalization="batch")
    pool = PromptPool.for_backbone(backbone, 1, 2)
    policy = PromptedPolicy(backbone, pool)
    env = get_env("multi_cvrp", task="10-uniform")
    before = {k: v.clone() for k, v in backbone.state_dict().items()}
    policy.train()
    policy(env.reset(batch_size=[8]), env)["log_likelihood"].sum().backward()

    assert policy.training
    assert all(torch.equal(v, before[k]) for k, v in backbone.state_dict().items())
    assert all(p.grad is None for p in backbone.parameters())
    assert pool.prompts.grad.abs().sum() > 0


def test_the_backbone_is_there_once(policy, backbone):
    again = deepcopy(policy)

    assert policy.backbone is backbone
    assert again.backbone.encoder is again.encoder.encoder
    assert again.backbone.decoder is again.decoder
    assert not any("backbone" in name for name, _ in policy.named_modules())


def test_it_works_on_another_problem():
    """Nothing in the policy room is about CVRP."""
    torch.manual_seed(0)
    env = get_env("tsp", generator_params={"num_loc": 8})
    backbone = AttentionModelPolicy(
        env_name="tsp", embed_dim=16, num_heads=2, num_encoder_layers=2, feedforward_hidden=16
    )
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, 2))
    out = policy(env.reset(batch_size=[3]), env, decode_type="multistart_greedy")

    assert out["actions"].sort(-1).values.tolist() == [list(range(8))] * 24


def test_explain_lists_the_keys_by_distance(policy, td):
    found = policy.explain(td)

    assert found.keys.sort(-1).values.tolist() == [[0, 1, 2, 3]] * 5
    assert (found.distances.diff(dim=-1) >= 0).all()
    assert torch.equal(found.prompts, policy(td, decode_type="greedy")[PROMPT])
    assert len(str(found).splitlines()) == 6


def test_a_pool_of_one_prompt_explains_itself_without_keys(backbone, td):
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, 2))

    assert policy.explain(td).prompts.tolist() == [0] * 5
    with pytest.raises(ValueError, match="num_prompts must be at least 1, got 0"):
        policy(td, num_prompts=0)


def test_misspelt_options_are_refused(policy, env, td):
    with pytest.raises(TypeError, match="Unknown option num_promts"):
        policy(td, env, decode_type="greedy", num_promts=8)
    with pytest.raises(ValueError, match="Unknown decode_type 'gredy'"):
        policy(td, env, decode_type="gredy")


def test_prompts_on_an_untracked_norm_do_not_depend_on_the_memory(env):
    torch.manual_seed(0)
    backbone = POMOPolicy("cvrp", 16, 2, 2, 32, normalization="batch_no_track")
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, init_scale=1.0)).eval()
    td, found = env.reset(batch_size=[16]), []
    for budget in (None, 0.2):
        policy.set_rollouts(memory_budget=budget)
        with torch.no_grad():
            found.append(policy(td, env, decode_type="multistart_greedy")["reward"])
    with torch.no_grad():
        part = policy(td[:8], env, decode_type="multistart_greedy")["reward"]

    assert torch.equal(*found)
    assert not torch.equal(found[0].view(-1, 16)[:, :8], part.view(-1, 8))


def test_a_policy_of_another_kind_cant_have_a_pool():
    class Other:
        encoder = None

    with pytest.raises(TypeError, match="Other can't be prompted"):
        PromptPool.for_backbone(Other())
    with pytest.raises(TypeError, match="writes a POMOPolicy or AttentionPolicy, got Other"):
        save_backbone(Other(), "x.safetensors")


def test_a_mistyped_decode_type_is_refused(backbone, pool):
    with pytest.raises(ValueError, match="must be sampling or greedy, got 'greddy'"):
        PromptedPolicy(backbone, pool, train_decode_type="greddy")


def test_the_parameter_count_is_told_in_pefts_words(policy, backbone):
    total = sum(p.numel() for p in backbone.parameters()) + 4 * 2 * 2 * 16

    assert policy.trainable_parameters().startswith(
        f"trainable params: 256 || all params: {total:,} || trainable%:"
    )


def test_a_saved_pool_gives_identical_tours_on_its_backbone(policy, backbone, env, td, tmp_path):
    policy.save(tmp_path / "pool.safetensors")
    save_backbone(backbone, tmp_path / "backbone.safetensors")
    again = PromptedPolicy.from_pretrained(
        tmp_path / "backbone.safetensors", tmp_path / "pool.safetensors"
    )
    one, two = (p(td, env, phase="test", decode_type="greedy") for p in (policy, again))

    assert torch.equal(one["actions"], two["actions"])
    assert torch.equal(one["log_likelihood"], two["log_likelihood"])


def test_keys_of_another_backbone_are_refused(keys):
    torch.manual_seed(9)
    stranger = POMOPolicy("cvrp", 16, 2, 2, 32)
    pool = PromptPool.for_backbone(stranger, 4, 2).set_keys(keys)
    with pytest.raises(ValueError, match="belongs to backbone"):
        PromptedPolicy(stranger, pool)


def test_a_pool_of_another_backbone_is_refused(policy, tmp_path):
    path = policy.save(tmp_path / "pool.safetensors")
    torch.manual_seed(9)
    stranger = POMOPolicy("cvrp", 16, 2, 2, 32)
    for load in (
        lambda: PromptedPolicy.from_pretrained(stranger, path),
        lambda: PromptPool.from_pretrained(path, stranger),
    ):
        with pytest.raises(ValueError, match=r"belongs to backbone [0-9a-f]{32}, this one is"):
            load()
