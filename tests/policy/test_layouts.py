import pytest
import torch

from rl4co.envs import get_env
from rl4co.models.zoo.am import AttentionModelPolicy
from rl4co.models.zoo.symnco.policy import SymNCOPolicy
from rl4co.utils.ops import unbatchify

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, load_backbone, save_backbone
from rl4co_prompt.policy.backbone import fingerprint, policy_from, policy_from_weights
from rl4co_prompt.policy.layouts import read_layout
from rl4co_prompt.policy.reading import Checkpoint
from tests.policy.reference import (
    ReferenceFirstRelease,
    ReferencePOMO,
    ReferenceTSP,
    random_first_release,
    random_kool,
    random_tsp_weights,
    random_weights,
)
from tests.policy.samples import customers, same, tsp

SIZES = {"embed_dim": 32, "layers": 2, "feedforward": 48}


def tours(policy, env, td, starts):
    with torch.no_grad():
        out = policy.eval()(td, env, decode_type="multistart_greedy", num_starts=starts)
    return unbatchify(out["actions"], starts)


def test_pomos_first_release_gives_the_reference_tours():
    weights = random_first_release("cvrp", **SIZES)
    policy, env, batch = policy_from_weights(weights, 4), MultiTaskCVRPEnv(), customers()
    reference = ReferenceFirstRelease(weights, 4, 2, "batch")
    expected = reference.rollout(batch["depot"], batch["locs"], batch["demand"])

    assert policy.config["graph_context"]
    assert policy.config["normalization"] == "batch"
    assert same(tours(policy, env, env.reset(batch), 11), expected)


@pytest.mark.parametrize("release", ["first", "second"])
def test_pomos_tsp_model_gives_the_reference_tours(release):
    if release == "first":
        weights = random_first_release("tsp", **SIZES)
        reference = ReferenceFirstRelease(weights, 4, 2, "batch")
    else:
        weights = random_tsp_weights(**SIZES)
        reference = ReferenceTSP(weights, 4, 2)
    policy, (env, td) = policy_from_weights(weights, 4), tsp()

    assert policy.env_name == "tsp"
    assert torch.equal(tours(policy, env, td, 9), reference.tsp_rollout(td["locs"]))


@pytest.mark.parametrize("kind", ["instance", "batch", "batch_no_track"])
def test_every_norm_of_omni_gives_the_reference_tours(kind):
    weights = random_weights(32, 2, 48, tracked=kind == "batch")
    policy, env, batch = policy_from_weights(weights, 4, kind), MultiTaskCVRPEnv(), customers()
    reference = ReferencePOMO(weights, 4, 2, kind)
    expected = reference.rollout(batch["depot"], batch["locs"], batch["demand"])

    assert same(tours(policy, env, env.reset(batch), 11), expected)


@pytest.mark.parametrize(
    "wrapper", ["module.", "model.", "_orig_mod.", "policy.module.", "agent.net.", "x._orig_mod."]
)
def test_wrapped_weights_are_found(wrapper):
    weights = random_kool("cvrp")
    wrapped = {wrapper + k: v for k, v in weights.items()} | {"baseline.x.weight": torch.zeros(1)}

    assert fingerprint(policy_from_weights(wrapped)) == fingerprint(policy_from_weights(weights))


def test_running_statistics_contradict_another_norm():
    with pytest.raises(ValueError, match="normalization is batch, not instance"):
        policy_from_weights(random_kool("cvrp"), normalization="instance")


def test_prompts_are_turned_from_token_major_to_layer_major():
    prompt = torch.arange(3 * 5 * 2 * 32.0).view(3, 1, -1)  # 5 tokens x 2 layers
    weights = random_weights(32, 2, 48) | {"promptpool.prompt": prompt}
    found = read_layout(Checkpoint(weights))

    assert found.layout == "PromptVRP"
    assert found.prompts.shape == (3, 2, 5, 32)
    assert torch.equal(found.prompts[2, 1, 3], prompt.view(3, 5, 2, 32)[2, 3, 1])
    weights["promptpool.prompt"] = prompt[..., :-1]
    with pytest.raises(ValueError, match="prompts of 319 numbers; expected a multiple of 2"):
        read_layout(Checkpoint(weights))


@pytest.mark.parametrize("name", ["cvrp", "tsp"])
@pytest.mark.parametrize("pomo", [True, False])
def test_a_state_dict_of_rl4co_gives_its_rewards(name, pomo):
    torch.manual_seed(0)
    options = {"normalization": "instance", "use_graph_context": False} if pomo else {}
    stock = AttentionModelPolicy(
        env_name=name, embed_dim=16, num_heads=2, num_encoder_layers=2, **options
    ).eval()
    policy = policy_from_weights(stock.state_dict(), 2).eval()
    env = get_env(name, generator_params={"num_loc": 8})
    td = env.reset(env.generator(4))
    with torch.no_grad():
        ours, theirs = (p(td.clone(), env, decode_type="greedy")["reward"] for p in (policy, stock))

    assert torch.allclose(ours, theirs, atol=1e-6)
    assert fingerprint(policy) == fingerprint(stock)


@pytest.mark.parametrize(
    ("name", "alike"),
    [("op", "cvrp"), ("spctsp", "pctsp"), ("sdvrp", None), ("cvrptw", None), ("pdp", None),
     ("mtvrp", None), ("mtsp", None)],
)  # fmt: skip
def test_a_state_dict_of_rl4co_tells_its_problem(name, alike):
    stock = AttentionModelPolicy(env_name=name, embed_dim=16, num_heads=2, num_encoder_layers=2)
    checkpoint = Checkpoint(stock.state_dict())
    found = read_layout(checkpoint, 2)

    assert found.config["env_name"] == (alike or name)
    assert any(name in text for text in found.assumed) == (alike is not None)
    found = read_layout(checkpoint, 2, problem=name)
    assert fingerprint(policy_from(found)) == fingerprint(stock)
    assert not any("problem" in text for text in found.assumed)


def test_other_layouts_have_one_problem():
    with pytest.raises(ValueError, match="is POMO for cvrp, not for op"):
        read_layout(Checkpoint(random_weights(32, 2, 48)), problem="op")


def test_symncos_projection_head_is_left_out():
    stock = SymNCOPolicy(env_name="cvrp", embed_dim=16, num_heads=2, num_encoder_layers=2)

    assert fingerprint(policy_from_weights(stock.state_dict(), 2)) == fingerprint(stock)


def broken_weights(change):
    weights = random_weights(32, 2, 48)
    weights["decoder.Wk.weight"] = change(weights["decoder.Wk.weight"])
    return weights


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda w: w * float("nan"), "NaN or infinite numbers: decoder.project_node"),
        (lambda w: w.int(), "decoder.Wk.weight as torch.int32"),
        (lambda w: w.to_sparse(), "decoder.Wk.weight as torch.float32, torch.sparse_coo"),
        (lambda w: w[:, 1:], "the names of POMO in shapes that do not fit together"),
    ],
)
def test_weights_that_are_no_numbers_of_a_model_get_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        policy_from_weights(broken_weights(change), 4)


def test_wrong_dimensions_and_layers_get_one_sentence():
    name = "encoder.layers.0.feed_forward.W1.weight"
    with pytest.raises(ValueError, match=rf"{name} as \[3\]; expected 2 sizes"):
        policy_from_weights(random_weights(32, 2, 48) | {name: torch.zeros(3)}, 4)
    strange = {"encoder.layers.last.Wq.weight": torch.zeros(2, 2)}
    with pytest.raises(ValueError, match=r"does not have: encoder.layers.last.Wq.weight"):
        policy_from_weights(random_weights(32, 2, 48) | strange, 4)


def test_batch_norm_needs_running_statistics():
    with pytest.raises(ValueError, match="is instance or batch_no_track, not batch"):
        policy_from_weights(random_weights(32, 2, 48), 4, "batch")


def test_names_of_early_rl4co_releases_are_known():
    policy = AttentionModelPolicy(env_name="cvrp", embed_dim=16, num_heads=2, num_encoder_layers=2)
    early = {
        k.replace("decoder.pointer", "decoder.logit_attention")
        .replace("decoder.context_embedding", "decoder.context")
        .replace("lins.0", "0")
        .replace("lins.1", "2"): v
        for k, v in policy.state_dict().items()
    }

    assert fingerprint(policy_from_weights(early, 2)) == fingerprint(policy)


def test_our_own_policy_in_a_lightning_checkpoint_is_known():
    policy = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    again = policy_from_weights({f"policy.{k}": v for k, v in policy.state_dict().items()}, 2)

    assert fingerprint(again) == fingerprint(policy)


def test_what_the_file_does_not_tell_is_said():
    found = read_layout(Checkpoint(random_weights(32, 2, 48)))

    assert found.config["num_heads"] == 8
    assert ["heads" in found.assumed[0], "batch_no_track" in found.assumed[1]] == [True, True]
    assert not read_layout(Checkpoint(random_weights(32, 2, 48)), 4, "instance").assumed


@pytest.mark.parametrize("name", ["kool cvrp", "kool tsp", "first release", "batch_no_track"])
def test_imported_models_survive_saving_bit_for_bit(tmp_path, name):
    policy = {
        "kool cvrp": lambda: policy_from_weights(random_kool("cvrp")),
        "kool tsp": lambda: policy_from_weights(random_kool("tsp")),
        "first release": lambda: policy_from_weights(random_first_release("cvrp", **SIZES), 4),
        "batch_no_track": lambda: policy_from_weights(
            random_kool("cvrp", tracked=False), normalization="batch_no_track"
        ),
    }[name]()
    again = load_backbone(save_backbone(policy, tmp_path / "x.safetensors"))

    assert (type(again), again.config) == (type(policy), policy.config)
    assert fingerprint(again) == fingerprint(policy)
