import pytest
import torch

from rl4co.envs import get_env

from rl4co_prompt.tasks.reset import reset


@pytest.mark.parametrize("name", ["tsp", "cvrp", "cvrptw", "op", "pctsp", "pdp", "mtsp", "svrp"])
def test_a_reset_leaves_the_instances_and_the_generator_as_they_are(name):
    env, other = (get_env(name, generator_params={"num_loc": n}, seed=0) for n in (8, 12))
    batch = other.generator(2)
    before = {key: value.clone() for key, value in batch.items()}
    first, second = reset(env, batch), reset(env, batch)

    assert set(batch.keys()) == set(before)
    assert all(torch.equal(batch[key], before[key]) for key in before)
    assert torch.equal(first["action_mask"], second["action_mask"])
    assert torch.equal(first["action_mask"], other.reset(batch)["action_mask"])
    assert env.generator.num_loc == 8
