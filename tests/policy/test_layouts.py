import argparse
import json

import pytest
import torch

from rl4co.envs import TSPEnv, get_env
from rl4co.models.zoo.am import AttentionModelPolicy
from rl4co.models.zoo.symnco.policy import SymNCOPolicy
from rl4co.utils.ops import unbatchify

from rl4co_prompt import (
    MultiTaskCVRPEnv,
    POMOPolicy,
    PromptedPolicy,
    PromptPool,
    Solver,
    TaskGenerator,
    load_backbone,
    save_backbone,
    task_env,
)
from rl4co_prompt.policy.backbone import fingerprint, policy_from, policy_from_weights
from rl4co_prompt.policy.layouts import read_layout
from rl4co_prompt.policy.reading import Checkpoint
from rl4co_prompt.tasks.reset import reset
from tests.conftest import outside
from tests.policy.reference import (
    ReferenceFirstRelease,
    ReferenceKool,
    ReferencePOMO,
    ReferenceTSP,
    random_first_release,
    random_kool,
    random_tsp_weights,
    random_weights,
)

SIZES = {"embed_dim": 32, "layers": 2, "feedforward": 48}


def customers(batch=5):
    return TaskGenerator("11-uniform")(batch, rng=0)


def tsp(batch=5, size=9):
    env = TSPEnv(generator_params={"num_loc": size}, seed=0)
    return env, env.reset(env.generator(batch))


def tours(policy, env, td, starts):
    with torch.no_grad():
        out = policy.eval()(td, env, decode_type="multistart_greedy", num_starts=starts)
    return unbatchify(out["actions"], starts)


def same(ours, theirs):
    steps = min(ours.shape[-1], theirs.shape[-1])
    return torch.equal(ours[..., :steps], theirs[..., :steps])


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


@pytest.mark.parametrize("tracked", [True, False])
def test_kools_cvrp_model_gives_the_reference_tours(tracked):
    weights = random_kool("cvrp", tracked=tracked)
    policy, env, batch = policy_from_weights(weights), MultiTaskCVRPEnv(), customers()
    reference = ReferenceKool(weights, 4, 2, "batch" if tracked else "instance")
    hidden = reference.encode(batch)
    expected = reference.cvrp(hidden, batch["demand"], torch.zeros(5, 1).long(), torch.ones(5, 1))
    with torch.no_grad():
        td = env.reset(batch)
        found, _ = policy.eval().encoder(td)
        actions = policy(td, env, decode_type="greedy")["actions"]

    assert torch.allclose(found, hidden, atol=1e-5)
    assert same(actions, expected[:, 0, 1:])
    assert sum(p.numel() for p in policy.parameters()) == sum(
        v.numel() for k, v in weights.items() if "running" not in k and "tracked" not in k
    )


def test_kools_tsp_model_gives_the_reference_tours():
    weights = random_kool("tsp")
    policy, (env, td) = policy_from_weights(weights), tsp()
    reference = ReferenceKool(weights, 4, 2, "batch")
    hidden = reference.encode({"locs": td["locs"]})
    expected = reference.tsp(hidden, reference.first_node(hidden))
    with torch.no_grad():
        actions = policy.eval()(td, env, decode_type="greedy")["actions"]

    assert torch.equal(actions, expected[:, 0])


@pytest.mark.parametrize("engine", ["lean", "generic", "stock"])
def test_kools_model_runs_on_every_engine_and_takes_prompts(engine):
    backbone, env = policy_from_weights(random_kool("cvrp")).eval(), MultiTaskCVRPEnv()
    td = env.reset(customers())
    plain = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, num_tokens=0)).eval()
    prompted = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, init_scale=1.0)).eval()
    options = {"decode_type": "multistart_greedy", "num_starts": 11, "engine": engine}
    with torch.no_grad():
        alone, same, other = (p(td, env, **options)["reward"] for p in (backbone, plain, prompted))

    assert torch.equal(alone, same)
    assert not torch.equal(alone, other)


def test_kools_model_solves():
    backbone = policy_from_weights(random_kool("cvrp")).eval()
    found = Solver(backbone).solve({k: v[0].numpy() for k, v in _arrays().items()})

    assert found[0].cost > 0


def _arrays():
    batch = customers(1)
    demand = (batch["demand"] * 40).round().int()
    return {"depot": batch["depot"], "customers": batch["locs"], "demand": demand,
            "capacity": torch.tensor([40])}  # fmt: skip


@pytest.mark.parametrize("place", ["inside", "beside"])
def test_kools_arguments_are_read(tmp_path, place):
    arguments, path = {"problem": "op", "tanh_clipping": 5.0}, tmp_path / "epoch-99.pt"
    state = {"model": random_kool("cvrp"), "optimizer": {"state": {}}, "rng_state": torch.rand(3)}
    if place == "inside":
        state["args"] = argparse.Namespace(**arguments)
    else:
        (tmp_path / "args.json").write_text(json.dumps(arguments))
    torch.save(state, path)
    found = load_backbone(path)

    assert (found.env_name, found.tanh_clipping) == ("op", 5.0)
    arguments["problem"] = "knapsack"
    state["args"] = arguments
    torch.save(state, path)
    with pytest.raises(ValueError, match="is Kool's model for knapsack; expected one for cvrp, op"):
        load_backbone(path)


def test_kools_models_of_unknown_problems_are_refused():
    weights = random_kool("cvrp") | {"init_embed.weight": torch.zeros(32, 7)}
    with pytest.raises(ValueError, match="is Kool's model for an unknown problem"):
        policy_from_weights(weights)


@pytest.mark.parametrize(
    ("problem", "told", "alike"),
    [("cvrp", "cvrp", "op"), ("op", "cvrp", "op"), ("pctsp", "pctsp", "spctsp"), ("sdvrp",) * 3],
)
def test_kools_problem_is_told_by_shapes_or_by_the_user(problem, told, alike):
    checkpoint = Checkpoint(random_kool(problem))
    found = read_layout(checkpoint)

    assert found.config["env_name"] == told
    assert any(alike in text for text in found.assumed)
    named = read_layout(checkpoint, problem=problem)
    assert named.config["env_name"] == problem
    assert named.assumed == []


def state_of_kools(problem, td):
    """What is left of length, capacity or prize, and of the demands where they are split."""
    if problem == "op":
        return td["max_length"][:, 0] - td["tour_length"].view(-1), None
    if problem == "sdvrp":
        demand = td["demand_with_depot"].clone()
        demand[:, 0] = 0
        return td["vehicle_capacity"] - td["used_capacity"], demand
    return (1 - td["cur_total_prize"]).clamp(min=0), None


@pytest.mark.parametrize("problem", ["op", "pctsp", "spctsp", "sdvrp"])
def test_kools_other_models_give_the_reference_likelihoods(problem):
    weights = random_kool("pctsp" if problem == "spctsp" else problem)
    policy = policy_from(read_layout(Checkpoint(weights), problem=problem)).eval()
    reference = ReferenceKool(weights, 4, 2, "batch")
    env = task_env(f"{problem}:11-uniform")
    td = reset(env, env.generator(5, rng=0))
    with torch.no_grad():
        out = policy(td.clone(), env, decode_type="greedy", return_sum_log_likelihood=False)
    plain = {"depot": td["locs"][:, 0], "locs": td["locs"][:, 1:]}
    if problem == "sdvrp":
        plain["demand"] = td["demand"]
    elif problem == "op":
        plain["prize"] = td["prize"][:, 1:]
    else:
        plain |= {"prize": td["expected_prize"], "penalty": td["penalty"][:, 1:]}
    hidden, rows = reference.encode(plain), torch.arange(5)

    for step, action in enumerate(out["actions"].T):
        left, demand = state_of_kools(problem, td)
        last = hidden[rows, td["current_node"].view(-1)][:, None]
        blocked = ~td["action_mask"][:, None]
        query = reference.query(hidden, last, left.view(-1, 1, 1))
        scores = reference.score(hidden, query, blocked, demand).masked_fill(blocked, -torch.inf)
        expected = scores[:, 0].log_softmax(-1)[rows, action]
        going = ~td["done"].view(-1)

        assert torch.allclose(out["log_likelihood"][going, step], expected[going], atol=1e-4)
        td = env.step(td.set("action", action))["next"]


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


@pytest.mark.parametrize(
    ("weights", "instances", "cost"),
    [
        ("kool_am_cvrp100", "uniform/kool_vrp100_test", 16.790),
        ("kool_am_cvrp100", "uniform/mvmoe_cvrp100_uniform", 16.544),
        ("kool_am_cvrp50", "uniform/kool_vrp50_test", 11.059),
        ("kool_am_cvrp50", "uniform/mvmoe_cvrp50_uniform", 10.891),
        ("amdkd_am_teacher_cvrp100_uniform", "zero_shot/amdkd_val_uniform100", 16.742),
        ("amdkd_am_teacher_cvrp100_cluster", "zero_shot/amdkd_val_cluster100", 8.482),
        ("amdkd_am_teacher_cvrp100_mixed", "zero_shot/amdkd_val_mixed100", 15.279),
    ],
)
def test_kools_weights_give_their_known_costs(weights, instances, cost):
    """Greedy, one tour each, mean over 500 instances."""
    backbone = load_backbone(outside(f"weights/{weights}.npz"))
    env = MultiTaskCVRPEnv()
    td = env.reset(env.load_data(outside(f"{instances}_0-499.npz")))
    with torch.inference_mode():
        out = backbone(td, env, decode_type="greedy")

    assert len(td) == 500
    assert -out["reward"].mean().item() == pytest.approx(cost, abs=6e-4)


def test_kools_tsp_weights_give_their_known_cost():
    """5.795 on other uniform instances; a mean of 500 scatters by 0.013."""
    backbone = load_backbone(outside("weights/kool_am_tsp50.npz"))
    torch.manual_seed(0)
    env = get_env("tsp", generator_params={"num_loc": 50})
    td = env.reset(env.generator(500))
    with torch.inference_mode():
        out = backbone(td, env, decode_type="greedy")

    assert -out["reward"].mean().item() == pytest.approx(5.795, abs=0.04)
