import argparse
import json

import pytest
import torch

from rl4co.envs import get_env

from rl4co_prompt import (
    MultiTaskCVRPEnv,
    PromptedPolicy,
    PromptPool,
    Solver,
    load_backbone,
    task_env,
)
from rl4co_prompt.policy.backbone import policy_from, policy_from_weights
from rl4co_prompt.policy.layouts import read_layout
from rl4co_prompt.policy.reading import Checkpoint
from rl4co_prompt.tasks.reset import reset
from tests.conftest import outside
from tests.policy.reference import ReferenceKool, random_kool
from tests.policy.samples import customers, same, tsp


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
