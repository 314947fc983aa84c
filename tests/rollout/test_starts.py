import pytest
import torch

from rl4co.envs import get_env
from tensordict import TensorDict

from rl4co_prompt import PromptedPolicy, PromptPool
from rl4co_prompt.rollout.starts import count_starts, rollout_options, select_starts, with_starts
from tests.facts import FACTS
from tests.rollout.policies import SMALL, FastPolicy, instances


def state(mask, **more):
    return TensorDict({"action_mask": torch.tensor(mask), **more}, batch_size=[len(mask)])


def test_an_instance_with_few_starts_takes_them_in_turn():
    td = state([[False, True, True, True], [False, False, True, True]])

    assert count_starts(td) == 3
    assert select_starts(td, None, 3).view(3, 2).T.tolist() == [[1, 2, 3], [2, 3, 2]]
    assert select_starts(td, None, 2).view(2, 2).T.tolist() == [[1, 2], [2, 3]]


def test_the_depot_is_a_start_only_where_there_is_no_other():
    td = state([[True, True, True], [True, False, False]], depot=torch.zeros(2, 2))

    assert select_starts(td, None, 2).view(2, 2).T.tolist() == [[1, 2], [0, 0]]


def test_a_first_node_that_is_given_means_samples():
    td = state([[True, False, False]])

    assert rollout_options(td) == {"num_samples": 3, "decode_type": "sampling"}
    assert rollout_options(td, 7)["num_samples"] == 7
    assert rollout_options(td, rollouts="starts")["num_starts"] == 2


def test_starts_and_samples_can_be_asked_for():
    td = state([[True, True, True]])

    assert rollout_options(td)["num_starts"] == 3
    assert rollout_options(td, 2)["num_starts"] == 2
    assert rollout_options(td, rollouts="samples")["num_samples"] == 3


def test_an_instance_without_a_first_node_is_refused():
    with pytest.raises(ValueError, match="allows no first node"):
        count_starts(state([[False, False]]))


def test_options_get_starts_only_where_they_ask_for_some():
    td = state([[False, True, True]])
    full = {"num_starts": 2, "select_start_nodes_fn": select_starts}
    own = {"num_starts": 2, "select_start_nodes_fn": max}
    tours = torch.zeros(1)

    assert with_starts(td, {}, "multistart_sampling") == full
    assert with_starts(td, {"num_starts": 5}, "greedy") == full | {"num_starts": 5}
    assert with_starts(td, own, "greedy") == own
    for options in ({}, {"num_samples": 3}, {"num_starts": 1}, {"actions": tours}):
        assert with_starts(td, options, "greedy") == options
    assert with_starts(td, {"actions": tours, "num_starts": 2}, "greedy").keys() > full.keys()


@pytest.mark.parametrize("name", ["op", "mtvrp", "cvrpmvc", "svrp", "smtwtp", "mdcpdp", "shpp"])
@pytest.mark.parametrize("budget", [None, 0.1])
def test_a_prompted_policy_starts_right_where_rl4co_does_not(name, budget):
    env = next(fact for fact in FACTS if fact.name == name).env()
    torch.manual_seed(0)
    backbone = FastPolicy(env_name=name, normalization="instance", **SMALL)
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, 2)).eval()
    policy.set_rollouts(memory_budget=budget)
    td = instances(env, batch=8)
    with torch.no_grad():
        out = policy(td, env, decode_type="multistart_greedy")
    first = out["actions"][:, 0]

    assert torch.equal(first, select_starts(td, env, len(first) // 8))


@pytest.mark.parametrize("name", ["tsp", "cvrp", "cvrptw", "sdvrp", "pctsp", "pdp"])
def test_where_rl4cos_starts_are_right_ours_are_the_same(name):
    env = get_env(name, generator_params={"num_loc": 10}, seed=0)
    td = instances(env)

    assert count_starts(td) == env.get_num_starts(td)
    assert torch.equal(select_starts(td, env, 7), env.select_start_nodes(td, 7))


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("name", ["mtsp", "flp", "mcp", "pdp", "svrp"])
def test_contexts_that_read_rows_give_rl4cos_tours(name, graph):
    """RL4CO's loop has rows for these when it is told that their nodes change."""
    params = {"mcp": {"num_sets": 60, "num_items": 80, "n_sets_to_choose": 4}}.get(
        name, {"num_loc": 10}
    )
    env = get_env(name, generator_params=params, seed=0)
    torch.manual_seed(0)
    policy = FastPolicy(
        env_name=name, normalization="instance", use_graph_context=graph, **SMALL
    ).eval()
    td = instances(env)
    options = {"decode_type": "multistart_greedy", **rollout_options(td)}
    with torch.no_grad():
        ours = policy(td, env, engine="generic", **options)
        policy.decoder.is_dynamic_embedding = True
        stock = policy(td, env, engine="stock", **options)

    assert torch.equal(ours["actions"], stock["actions"])
    assert torch.allclose(ours["reward"], stock["reward"], atol=1e-5)
    assert torch.allclose(ours["log_likelihood"], stock["log_likelihood"], atol=1e-4)


@pytest.mark.parametrize("name", ["mtsp", "pdp"])
def test_their_gradients_are_rl4cos(name):
    env = get_env(name, generator_params={"num_loc": 10}, seed=0)
    torch.manual_seed(0)
    policy = FastPolicy(env_name=name, normalization="instance", **SMALL).eval()
    td, found = instances(env), []
    options = {"decode_type": "multistart_greedy", **rollout_options(td)}
    for engine in ("generic", "stock"):
        policy.decoder.is_dynamic_embedding = engine == "stock"
        out = policy(td, env, engine=engine, **options)
        weights = torch.linspace(-1, 1, len(out["reward"]))
        policy.zero_grad()
        (out["log_likelihood"] * weights).sum().backward()
        found.append(policy.encoder.init_embedding.init_embed_depot.weight.grad.clone())

    assert found[1].abs().max() > 0
    assert torch.allclose(found[0], found[1], rtol=1e-3, atol=1e-5)
