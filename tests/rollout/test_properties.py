"""Any instance: tours are feasible, and their cost and likelihood are what RL4CO says."""

import pytest
import torch

from hypothesis import given, settings, strategies as st
from rl4co.envs import CVRPEnv
from tensordict import TensorDict

from rl4co_prompt.rollout import compiled
from tests.rollout.policies import make_policy

ENV = CVRPEnv(generator_params={"num_loc": 10}, seed=0)
SHARE = st.sampled_from([0.0, 0.01, 0.1, 1 / 3, 0.5, 0.999995, 1.0])  # of the capacity
PLACE = st.sampled_from([0.0, 0.25, 0.5, 1.0])  # coincident points come often


@st.composite
def cvrp(draw):
    """Reset instances, customers anywhere and of any demand that fits."""
    size, batch = draw(st.integers(1, 13)), draw(st.integers(1, 3))
    numbers = st.lists(SHARE, min_size=batch * size, max_size=batch * size)
    places = st.lists(PLACE, min_size=2 * batch * (size + 1), max_size=2 * batch * (size + 1))
    points = torch.tensor(draw(places)).view(batch, size + 1, 2)
    data = {
        "depot": points[:, 0],
        "locs": points[:, 1:],
        "demand": torch.tensor(draw(numbers)).view(batch, size),
    }
    return ENV.reset(TensorDict(data, batch_size=[batch]))


def starts(td, env, number):
    """Of any number, and of the instances' size."""
    return (torch.arange(number) % td["demand"].shape[1] + 1).repeat_interleave(len(td))


@pytest.mark.parametrize("path", ["kernel", "torch"])
@settings(max_examples=60, deadline=None)
@given(td=cvrp(), number=st.integers(2, 17), seed=st.integers(0, 2**40), sampling=st.booleans())
def test_tours_are_what_rl4co_says(path, td, number, seed, sampling):
    if path == "kernel":
        pytest.importorskip("numba", reason="the kernel needs the extra fast")
    policy = make_policy("cvrp", "biases")
    options = {
        "decode_type": "multistart_sampling" if sampling else "multistart_greedy",
        "num_starts": number,
        "select_start_nodes_fn": starts,
    }
    torch.manual_seed(seed)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        if path == "torch":
            patch.setattr(compiled, "why_not_compiled", lambda *_: "a test")
        out = policy(td, ENV, engine="lean", **options)  # the environment checks the tours
        del options["decode_type"]
        again = policy(td, ENV, actions=out["actions"][:, 1:], **options)

    assert torch.equal(again["actions"], out["actions"])
    assert torch.allclose(again["reward"], out["reward"], atol=1e-5)
    assert torch.allclose(again["log_likelihood"], out["log_likelihood"], atol=1e-4)
