"""Gradients of replays against those of RL4CO's own loop."""

import pytest
import torch

from rl4co.envs import get_env

from rl4co_prompt import PromptedPolicy, PromptPool
from rl4co_prompt.rollout import compiled, lean
from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.pointer import pointer_model
from rl4co_prompt.rollout.replay import LeanReplay
from tests.rollout.policies import (
    SMALL,
    STOCK_OPTIONS,
    FastPolicy,
    instances,
    make_env,
    make_policy,
)
from tests.rollout.test_engine import engine  # noqa: F401


def pomo_loss(out, batch):
    reward, likelihood = (out[key].view(-1, batch) for key in ("reward", "log_likelihood"))
    return -((reward - reward.mean(0)) * likelihood).mean()


def gradients(policy, loss):
    policy.zero_grad()
    loss.backward()
    return {k: p.grad for k, p in policy.named_parameters() if p.grad is not None}


def assert_close(ours, stock, tolerance=1e-4):
    """Relative difference in norm: of all, and of each parameter that is not mere rounding."""
    assert set(ours) == set(stock)
    whole = torch.stack([gradient.norm() for gradient in stock.values()]).norm()
    difference = torch.stack([(ours[name] - stock[name]).norm() for name in stock])
    assert difference.norm() < tolerance * whole
    for name, gradient in stock.items():
        if gradient.norm() > 1e-3 * whole:
            assert (ours[name] - gradient).norm() < tolerance * gradient.norm(), name


@pytest.mark.parametrize("option", ["POMO", *STOCK_OPTIONS])
@pytest.mark.parametrize("name", ["cvrp", "tsp"])
@pytest.mark.parametrize("start", ["multistart_", ""])
def test_a_trainable_policy_gets_pomos_gradient(engine, name, option, start):  # noqa: F811
    env, policy = make_env(name), make_policy(name, option)
    td = instances(env, batch=4)
    options = {"decode_type": f"{start}greedy", "phase": "train"}
    stock = gradients(
        policy, pomo_loss(policy(td, env, engine="stock", **options), 1 + 3 * bool(start))
    )
    ours = gradients(
        policy, pomo_loss(policy(td, env, engine=engine, **options), 1 + 3 * bool(start))
    )

    assert_close(ours, stock)


def test_prompts_of_a_frozen_policy_get_pomos_gradient(engine, backbone, keys, env):  # noqa: F811
    pool = PromptPool.for_backbone(backbone, 4, num_tokens=2, gated=True).set_keys(keys)
    pool.gate.data += 0.5
    policy = PromptedPolicy(backbone, pool)
    td = env.reset(env.generator(4, rng=1))
    sampled = policy(td, env, engine=engine, decode_type="multistart_sampling")
    stock = policy(td, env, actions=sampled["actions"][:, 1:], num_starts=10)
    assert torch.equal(stock["actions"], sampled["actions"])

    assert_close(gradients(policy, pomo_loss(sampled, 4)), gradients(policy, pomo_loss(stock, 4)))
    assert all(p.grad is None for p in backbone.parameters())


@pytest.mark.parametrize("name", ["sdvrp", "op", "pctsp", "pdp", "cvrptw"])
def test_other_problems_get_pomos_gradient(name):
    torch.manual_seed(0)
    env = get_env(name, generator_params={"num_loc": 10}, seed=0)
    policy = FastPolicy(env_name=name, **SMALL)
    td = instances(env)
    options = {"decode_type": "multistart_greedy", "num_starts": 2}
    stock = gradients(policy, pomo_loss(policy(td, env, engine="stock", **options), 3))
    ours = gradients(policy, pomo_loss(policy(td, env, engine="generic", **options), 3))

    assert_close(ours, stock)


@pytest.mark.parametrize("weights", ["per step", "scaled"])
def test_any_loss_of_the_likelihoods_works(engine, weights):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy("cvrp")
    td = instances(env)
    found = []
    for name in (engine, "stock"):
        out = policy(
            td,
            env,
            engine=name,
            decode_type="multistart_greedy",
            return_sum_log_likelihood=weights != "per step",
        )
        likelihood = out["log_likelihood"]
        if weights == "per step":
            scale = torch.linspace(-1, 1, likelihood.numel()).view_as(likelihood)
            loss = (likelihood.exp() * scale).mean()
        else:
            loss = 1e4 * likelihood.square().mean()  # as a gradient scaler would
        found.append(gradients(policy, loss))

    assert_close(*found)


@pytest.mark.parametrize("budget", [0.1, 0.2, 1.0])
def test_chunks_do_not_change_the_gradient(engine, budget):  # noqa: F811
    env, policy = make_env("cvrp", 12), make_policy("cvrp", "POMO")
    td = instances(env, batch=5)
    options = {"engine": engine, "decode_type": "multistart_greedy"}
    whole = gradients(policy, pomo_loss(policy(td, env, **options), 5))
    policy.set_rollouts(memory_budget=budget)

    assert_close(gradients(policy, pomo_loss(policy(td, env, **options), 5)), whole, 1e-5)


def test_the_chunk_follows_the_budget():
    env, policy = make_env("cvrp", 20), make_policy("cvrp", "POMO")
    td = instances(env, batch=4)
    with torch.no_grad():
        model = pointer_model(policy.decoder, policy.encoder(td)[0], td)
    actions = torch.zeros(4, 20, 30, dtype=torch.long)
    sizes = [
        LeanReplay(model, Decoding(False), budget * 2**20, False)._chunk(actions)
        for budget in (0.1, 0.5, 2.0, 100.0)
    ]

    assert sizes == sorted(sizes)
    assert sizes[0][0] == 1
    assert sizes[0][1] < 30
    assert sizes[-1] == (4, 30)


def test_fewer_tours_give_an_unbiased_gradient(engine, policy, env, monkeypatch):  # noqa: F811
    """Mean of 100 gradients from 3 of 10 tours against the whole, within 4 standard errors."""
    td = env.reset(env.generator(2, rng=1))

    def prompt_gradient():
        torch.manual_seed(0)
        out = policy(td, env, engine=engine, decode_type="multistart_sampling")
        return gradients(policy, pomo_loss(out, 2))["encoder.pool.prompts"].flatten()

    whole = prompt_gradient()
    policy.set_rollouts(starts_per_update=3)
    rand, seeds = torch.rand, iter(range(10_000))

    def other_subset(*shape, **options):
        return rand(*shape, **options, generator=torch.Generator().manual_seed(next(seeds)))

    monkeypatch.setattr(torch, "rand", other_subset)  # the same tours, other subsets of them
    parts = torch.stack([prompt_gradient() for _ in range(100)])
    error = parts.std(0) / 10
    off = ((parts.mean(0) - whole).abs() / error.clamp_min(1e-12))[whole != 0]

    assert (parts[0] != parts[1]).any()
    assert (off < 4).float().mean() > 0.99


@pytest.mark.parametrize("name", ["cvrp", "tsp"])
@pytest.mark.parametrize("chooses", [True, False])
def test_the_kernels_gradient_is_torchs(name, chooses):
    """By every tensor of the model, with a weight of its own for every step."""
    pytest.importorskip("numba", reason="the kernel needs the extra fast")
    env, policy = make_env(name, 15), make_policy(name, "biases")
    td = instances(env, batch=3)
    with torch.no_grad():
        model = pointer_model(policy.decoder, policy.encoder(td)[0], td)
        first = None if chooses else torch.arange(1, 6).expand(3, 5)
        decoding = Decoding(False, 8.0, 0.7)
        actions, _ = lean.tours(model, 5, first, None, decoding)
    weights = torch.randn(actions.shape, generator=torch.Generator().manual_seed(0))
    leaves = [None if w is None else w.clone().requires_grad_() for w in model.weights()]
    own = model.with_weights(leaves)
    log_probs = lean.log_probs_of(lean.Heads(own), lean.Walk(own, 5), actions, chooses, decoding)
    (log_probs * weights).sum().backward()
    found = compiled.gradients(model, actions, weights, chooses, decoding)

    for leaf, gradient in zip(leaves, found, strict=True):
        if leaf is not None:
            expected = leaf.grad
            if leaf is own.first:  # the row of the empty tour is constant
                expected, gradient = expected[:, :-1], gradient[:, :-1]
            assert (gradient - expected).norm() <= 1e-5 * expected.norm()


def test_a_second_derivative_is_refused(engine):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy("cvrp")
    out = policy(instances(env), env, engine=engine, decode_type="multistart_greedy")
    weight = policy.decoder.pointer.project_out.weight
    with pytest.raises(RuntimeError, match="no second derivative; use engine='stock'"):
        torch.autograd.grad(out["log_likelihood"].sum(), weight, create_graph=True)


def test_the_record_is_not_the_callers_to_change(engine):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy("cvrp")
    td, found = instances(env, batch=1), []
    for edit in (False, True):
        out = policy(td, env, engine=engine, decode_type="multistart_greedy")
        if edit:
            out["actions"][:] = 1
        found.append(gradients(policy, pomo_loss(out, 1)))

    assert_close(*found, 1e-6)
