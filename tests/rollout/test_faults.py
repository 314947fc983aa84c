"""Bad instances, weights and environments end in a sentence, never in a hang."""

import pytest
import torch

from rl4co.envs import CVRPEnv

from tests.rollout.policies import instances, make_env, make_policy
from tests.rollout.test_engine import engine  # noqa: F401


class Endless(CVRPEnv):
    """Is never done."""

    def _step(self, td):
        td = super()._step(td)
        td["done"] = torch.zeros_like(td["done"])
        return td


class Closed(CVRPEnv):
    """Allows nothing."""

    def get_action_mask(self, td):
        return torch.zeros_like(super().get_action_mask(td))


def solve(policy, env, td, **options):
    with torch.no_grad():
        return policy(td, env, decode_type="multistart_greedy", **options)


def test_an_environment_that_never_ends_is_named():
    env = Endless(generator_params={"num_loc": 5})
    with pytest.raises(RuntimeError, match="Endless was not done after 220 steps"):
        solve(make_policy(), env, instances(env))


def test_the_callers_limit_counts(engine):  # noqa: F811
    env = make_env("cvrp")
    with pytest.raises(RuntimeError, match="CVRPEnv was not done after 4 steps"):
        solve(make_policy(), env, instances(env), engine=engine, max_steps=4)


class Slow(CVRPEnv):
    """Is done only at step 300."""

    def _step(self, td):
        td = super()._step(td)
        td["age"] = td.get("age", torch.zeros_like(td["used_capacity"])) + 1
        td["done"] = td["age"][:, 0] >= 300
        return td


def test_a_slow_environment_may_ask_for_more_steps():
    env = Slow(generator_params={"num_loc": 5}, check_solution=False)
    td = instances(env)
    with pytest.raises(RuntimeError, match="raise max_steps if tours are that long"):
        solve(make_policy(), env, td)

    assert solve(make_policy(), env, td, max_steps=301)["actions"].shape[1] == 300


def test_a_wrong_number_of_starts_is_named(engine):  # noqa: F811
    env = make_env("cvrp")
    options = {"num_starts": 3, "select_start_nodes_fn": lambda td, env, n: torch.ones(4).long()}
    with pytest.raises(ValueError, match="Got 4 start nodes for 3 starts of 3 instances"):
        solve(make_policy(), env, instances(env), engine=engine, **options)


def test_a_mask_without_a_choice_is_named():
    env = Closed(generator_params={"num_loc": 5})
    with pytest.raises(ValueError, match="the environment masked every node"):
        solve(make_policy(), env, instances(env))


def test_a_demand_above_the_capacity_is_named(engine):  # noqa: F811
    env = make_env("cvrp")
    data = env.generator(3)
    data["demand"][1, 3] = 1.5
    td = env.reset(data)
    with torch.no_grad(), pytest.raises((ValueError, RuntimeError)) as error:
        make_policy()(td, env, engine=engine, decode_type="greedy")
    assert "none of them is allowed" in str(error.value) or "was not done" in str(error.value)


@pytest.mark.parametrize("where", ["weights", "locs"])
def test_nan_is_named(engine, where):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy()
    td = instances(env)
    if where == "weights":
        policy.decoder.pointer.project_out.weight.data[0, 0] = torch.nan
    else:
        td["locs"][1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match="The policy gave NaN instead of probabilities"):
        solve(policy, env, td, engine=engine)


def test_a_budget_that_is_too_small_is_named(engine):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy()
    policy.set_rollouts(memory_budget=0.01)
    with pytest.raises(MemoryError, match=r"0\.01 MB is too small for a single rollout"):
        solve(policy, env, instances(env), engine=engine)


def test_instances_that_are_done_are_named():
    env = make_env("cvrp")
    td = instances(env)
    td["done"] = torch.ones_like(td["done"])
    with torch.no_grad(), pytest.raises(ValueError, match="reset them first"):
        make_policy()(td, env, engine="generic", decode_type="greedy")


def test_starts_beyond_the_instance_are_named(engine):  # noqa: F811
    small, large = make_env("cvrp", 5), make_env("cvrp", 9)
    with pytest.raises(ValueError, match="starts at node 6 of instances with 6 nodes"):
        solve(make_policy(), large, instances(small), engine=engine, num_starts=9)
