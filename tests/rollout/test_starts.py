import pytest
import torch

from rl4co.envs import get_env
from tensordict import TensorDict

from rl4co_prompt.rollout.starts import count_starts, rollout_options, select_starts
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
