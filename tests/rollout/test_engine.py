"""All engines against RL4CO's own loop."""

import pytest
import torch

from rl4co.envs import get_env

from rl4co_prompt import PromptedPolicy, PromptPool
from rl4co_prompt.rollout import compiled
from rl4co_prompt.rollout.engine import FastDecoding
from tests.rollout.policies import (
    SMALL,
    STOCK_OPTIONS,
    FastPolicy,
    instances,
    make_env,
    make_policy,
)

ENGINES = ("kernel", "lean", "generic")
STARTS = [
    {"decode_type": "multistart_greedy"},
    {"decode_type": "multistart_greedy", "num_starts": 4},
    {"decode_type": "greedy"},
]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Names of engines; ``lean`` is the plain torch one here, ``kernel`` the compiled."""
    if request.param == "kernel":
        pytest.importorskip("numba", reason="the kernel needs the extra fast")
        return "lean"
    if request.param == "lean":
        monkeypatch.setattr(compiled, "why_not_compiled", lambda *_: "a test")
    return request.param


def assert_same(ours, stock, tolerance=1e-4):
    assert ours.keys() == stock.keys()
    assert torch.equal(ours["actions"], stock["actions"])
    assert torch.allclose(ours["reward"], stock["reward"], atol=1e-5)
    assert torch.allclose(ours["log_likelihood"], stock["log_likelihood"], atol=tolerance)


@pytest.mark.parametrize("options", STARTS, ids=str)
@pytest.mark.parametrize("option", ["POMO", *STOCK_OPTIONS])
@pytest.mark.parametrize("name", ["cvrp", "tsp"])
def test_greedy_tours_are_rl4cos(engine, name, option, options):
    env, policy = make_env(name), make_policy(name, option)
    td = instances(env)
    with torch.no_grad():
        ours = policy(td, env, phase="test", engine=engine, **options)
        theirs = super(FastDecoding, policy).forward(td.clone(), env, phase="test", **options)

    assert_same(ours, theirs)


@pytest.mark.parametrize("size", [1, 2, 3, 25])
@pytest.mark.parametrize("name", ["cvrp", "tsp"])
def test_sizes_from_one_customer_on(engine, name, size):
    if name == "tsp" and size == 1:
        pytest.skip("RL4CO's TSP has no tour of one node")
    env, policy = make_env(name, size), make_policy(name, "POMO")
    td = instances(env, batch=2)
    options = {"decode_type": "multistart_greedy", "num_starts": max(2, size)}
    with torch.no_grad():
        assert_same(
            policy(td, env, engine=engine, **options), policy(td, env, engine="stock", **options)
        )


@pytest.mark.parametrize("name", ["sdvrp", "op", "pctsp", "pdp", "cvrptw", "mtvrp"])
@pytest.mark.parametrize("decode_type", ["greedy", "multistart_greedy"])
def test_the_generic_path_is_rl4cos_on_other_problems(name, decode_type):
    torch.manual_seed(0)
    variant = {"variant_preset": "ovrpbltw"} if name == "mtvrp" else {}
    env = get_env(name, generator_params={"num_loc": 10, **variant}, seed=0)
    policy = FastPolicy(env_name=name, **SMALL).eval()
    td = instances(env)
    options = {"decode_type": decode_type, "phase": "test"}
    if name == "op" and "multi" in decode_type:
        options["num_starts"] = 2  # RL4CO draws at random where too few starts are feasible
    with torch.no_grad():
        assert policy.plan(env, **options).engine == "generic"
        torch.manual_seed(3)
        ours = policy(td, env, **options)
        torch.manual_seed(3)
        assert_same(ours, policy(td, env, engine="stock", **options))


@pytest.mark.parametrize("name", ["cvrp", "tsp"])
def test_sampled_tours_have_the_likelihood_that_rl4co_gives_them(engine, name):
    env, policy = make_env(name), make_policy(name)
    td = instances(env)
    with torch.no_grad():
        out = policy(td, env, engine=engine, decode_type="multistart_sampling", num_starts=9)
        again = policy(td, env, actions=out["actions"][:, 1:], num_starts=9)

    assert torch.equal(again["actions"], out["actions"])
    assert torch.allclose(again["log_likelihood"], out["log_likelihood"], atol=1e-4)
    assert torch.allclose(again["reward"], out["reward"], atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"top_p": 0.7}, {"top_k": 2}], ids=str)
def test_choices_follow_the_probabilities(engine, options):
    """Chi-square over the first customer of 4,000 tours, at 1e-4."""
    if options and engine == "lean":
        pytest.skip("the generic path has the filters")
    env, policy = make_env("cvrp", 6), make_policy("cvrp")
    td = instances(env, batch=1)
    torch.manual_seed(5)
    with torch.no_grad():
        out = policy(
            td,
            env,
            engine=engine,
            decode_type="sampling",
            num_samples=4000,
            return_sum_log_likelihood=False,
            **options,
        )
    first = out["actions"][:, 0]
    counts = torch.bincount(first, minlength=7)
    seen = counts.nonzero()[:, 0]
    expected = torch.zeros(7).index_put((first,), out["log_likelihood"][:, 0].exp()) * 4000
    assert expected.sum() == pytest.approx(4000, rel=1e-3)
    statistic = ((counts - expected) ** 2 / expected)[seen].sum()
    assert statistic < 30.0  # the 1e-4 quantile for at most 5 degrees of freedom is 25.7


def test_one_seed_gives_all_engines_the_same_choices(monkeypatch):
    pytest.importorskip("numba", reason="the kernel needs the extra fast")
    env, policy = make_env("cvrp"), make_policy("cvrp")
    td, found = instances(env), []
    for engine in ENGINES:
        torch.manual_seed(11)
        if engine == "lean":
            monkeypatch.setattr(compiled, "why_not_compiled", lambda *_: "a test")
        name = "lean" if engine == "kernel" else engine
        with torch.no_grad():
            found.append(policy(td, env, engine=name, decode_type="multistart_sampling"))

    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@pytest.mark.parametrize("decode_type", ["multistart_greedy", "multistart_sampling"])
@pytest.mark.parametrize("budget", [0.12, 0.2, 0.5])
def test_results_do_not_depend_on_the_memory_budget(engine, decode_type, budget):
    env, policy = make_env("cvrp", 20), make_policy("cvrp", "POMO")
    td = instances(env, batch=5)
    options = {"engine": engine, "decode_type": decode_type, "num_starts": 20}
    with torch.no_grad():
        torch.manual_seed(2)
        whole = policy(td, env, **options)
        policy.set_rollouts(memory_budget=budget)
        torch.manual_seed(2)
        parts = list(policy.solve_in_parts(td, env, **options))
        torch.manual_seed(2)
        joined = policy(td, env, **options)

    assert len(parts) > 1
    assert_same(joined, whole, 1e-5)


def test_prompts_and_parts_go_together(policy, env):
    td = env.reset(env.generator(7, rng=3))
    options = {"decode_type": "multistart_sampling", "num_prompts": 3}
    with torch.no_grad():
        torch.manual_seed(2)
        whole = policy(td, env, **options)
        policy.set_rollouts(memory_budget=0.2)
        torch.manual_seed(2)
        assert_same_prompted(policy(td, env, **options), whole)


def assert_same_prompted(ours, theirs):
    assert torch.equal(ours["prompt"], theirs["prompt"])
    assert_same(ours, theirs, 1e-5)


def test_an_interrupt_keeps_the_parts_that_are_done(policy, env):
    td = env.reset(env.generator(6, rng=3))
    policy.set_rollouts(memory_budget=0.2)
    with torch.no_grad():
        parts = policy.solve_in_parts(td, env, decode_type="multistart_greedy")
        done = [next(parts), next(parts)]
        parts.close()
        policy.set_rollouts()
        whole = policy(td, env, decode_type="multistart_greedy")
    size, next_size = (len(part["prompt"]) for part in done)
    best = whole["reward"].view(-1, 6).amax(0)[size : size + next_size]
    assert torch.allclose(done[1]["reward"].view(-1, next_size).amax(0), best)


def test_finished_results_need_no_graph_and_leave_the_instances_alone(engine):
    env, policy = make_env("cvrp"), make_policy("cvrp")
    td = instances(env)
    before = td.clone()
    policy(td, env, engine=engine, decode_type="multistart_greedy")

    assert set(td.keys()) == set(before.keys())
    assert (td == before).all()


def test_instances_under_way_go_on_from_there(engine):
    env, policy = make_env("cvrp"), make_policy("cvrp")
    td = instances(env)
    env.check_solution = False  # of whole tours
    td.set("action", torch.tensor([2, 5, 1]))
    td = env.step(td)["next"]
    with torch.no_grad():
        ours = policy(td, env, decode_type="greedy")
        stock = policy(td, env, engine="stock", decode_type="greedy")
    assert torch.equal(ours["actions"], stock["actions"])
    if engine == "lean":
        with pytest.raises(ValueError, match="not as their reset left them"):
            policy(td, env, engine="lean", decode_type="greedy")


def test_prompted_tours_are_rl4cos(engine, policy, env):
    td = env.reset(env.generator(4, rng=1))
    options = {"decode_type": "multistart_greedy", "num_prompts": 2}
    with torch.no_grad():
        assert_same_prompted(
            policy(td, env, engine=engine, **options), policy(td, env, engine="stock", **options)
        )


def test_outside_weights_give_rl4cos_tours(engine, outside_backbone, env):
    """A trained policy of real size: every tour of two instances of n=50."""
    env.task = "50-uniform"
    td = env.reset(env.generator(2, rng=1))
    pool = PromptPool.for_backbone(outside_backbone, 1)
    for policy in (outside_backbone, PromptedPolicy(outside_backbone, pool).eval()):
        with torch.no_grad():
            options = {"decode_type": "multistart_greedy"}
            ours = policy(td, env, engine=engine, **options)
            stock = policy(td, env, engine="stock", **options)
        same = (ours["actions"] == stock["actions"]).all(-1)
        assert same.float().mean() >= 0.98  # near-ties may fall either way
        assert torch.allclose(ours["reward"][same], stock["reward"][same], atol=1e-4)
        assert torch.allclose(
            ours["log_likelihood"][same], stock["log_likelihood"][same], atol=1e-3
        )
