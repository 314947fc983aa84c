"""Which engine runs what, and that changed parts are noticed."""

import pytest
import torch

from rl4co.envs import CVRPEnv, get_env
from rl4co.models.nn.env_embeddings.context import VRPContext

from tests.rollout.policies import SMALL, FastPolicy, instances, make_env, make_policy
from tests.rollout.test_engine import assert_same, engine  # noqa: F401


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("cvrp", {}, "lean"),
        ("tsp", {}, "lean"),
        ("op", {}, "generic"),
        ("cvrp", {"top_p": 0.9}, "generic"),
        ("cvrp", {"top_k": 3}, "generic"),
        ("cvrp", {"decode_type": "beam_search"}, "stock"),
        ("cvrp", {"return_entropy": True}, "stock"),
        ("cvrp", {"return_hidden": True}, "stock"),
        ("cvrp", {"actions": torch.zeros(1, 1)}, "stock"),
        ("cvrp", {"select_best": True}, "stock"),
        ("cvrp", {"mask_logits": False}, "stock"),
        ("cvrp", {"store_all_logp": True}, "stock"),
    ],
    ids=str,
)
def test_the_engine_is_chosen_by_what_is_asked(name, options, expected):
    env = get_env(name, generator_params={"num_loc": 5})
    policy = FastPolicy(env_name=name, **SMALL)

    assert policy.plan(env, **options).engine == expected


class OtherStep(CVRPEnv):
    """Steps in its own way."""

    def _step(self, td):
        return super()._step(td)


class OtherContext(VRPContext):
    """Asks in its own way."""

    def forward(self, embeddings, td):
        return 2 * super().forward(embeddings, td)


def test_changed_environments_and_embeddings_take_the_generic_path():
    env = OtherStep(generator_params={"num_loc": 5})
    assert make_policy().plan(env).engine == "generic"

    policy = make_policy()
    policy.decoder.context_embedding = OtherContext(16)
    env = make_env("cvrp")
    assert policy.plan(env).engine == "generic"
    td = instances(env)
    with torch.no_grad():
        options = {"decode_type": "multistart_greedy"}
        assert_same(policy(td, env, **options), policy(td, env, engine="stock", **options))


class Adapted(torch.nn.Linear):
    """A layer with an adapter."""

    def forward(self, x):
        return super().forward(x) + x.roll(1, -1)


def scaled_attention(q, k, v, attn_mask=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, scale=2.0)


def adapt(policy, where):
    decoder = policy.decoder
    if where == "output":
        decoder.pointer.project_out = Adapted(16, 16, bias=False)
    elif where == "context":
        decoder.context_embedding.project_context = Adapted(17, 16, bias=False)
        decoder.context_embedding.project_context.forward = lambda x: x[..., :16]
    elif where == "attention":
        decoder.pointer.sdpa_fn = scaled_attention
    else:
        decoder.pointer.register_forward_hook(lambda module, given, logits: -logits)
    return "stock" if where == "hook" else "generic"


@pytest.mark.parametrize("where", ["output", "context", "attention", "hook"])
def test_changed_decoders_are_seen(where):
    env, policy = make_env("cvrp"), make_policy("cvrp")
    expected = adapt(policy, where)
    td, options = instances(env), {"decode_type": "multistart_greedy"}

    assert policy.plan(env, **options).engine == expected
    with torch.no_grad():
        assert_same(policy(td, env, **options), policy(td, env, engine="stock", **options))


@pytest.mark.parametrize("key", ["used_capacity", "action_mask", "current_node"])
def test_a_changed_start_is_seen(key):
    env, policy = make_env("cvrp"), make_policy("cvrp")
    env.check_solution = False
    td = instances(env)
    if key == "action_mask":
        td[key][:, 3:] = False
    else:
        td[key] += 0.5 if key == "used_capacity" else 2
    with torch.no_grad():
        ours = policy(td, env, decode_type="greedy")
        stock = policy(td, env, engine="stock", decode_type="greedy")
    assert_same(ours, stock)


class Diary(CVRPEnv):
    """Writes into its state in place."""

    def _reset(self, td, batch_size=None):
        return super()._reset(td, batch_size).set("diary", torch.zeros(*batch_size, 1))

    def _step(self, td):
        td["diary"] += td["action"][:, None]
        return super()._step(td)

    def _get_reward(self, td, actions):
        return td["diary"][:, 0]


@pytest.mark.parametrize("batch", [1, 2])
def test_rollouts_of_one_instance_have_states_of_their_own(batch):
    env, policy = Diary(generator_params={"num_loc": 6}), make_policy("cvrp")
    td, options = instances(env, batch), {"decode_type": "multistart_greedy"}
    with torch.no_grad():
        assert policy.plan(env, **options).engine == "generic"
        assert_same(policy(td, env, **options), policy(td, env, engine="stock", **options))


def test_double_precision_works(engine):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy("cvrp").double()
    td = instances(env).apply(lambda x: x.double() if x.is_floating_point() else x)
    with torch.no_grad():
        options = {"decode_type": "multistart_greedy"}
        ours = policy(td, env, engine=engine, **options)
        assert ours["log_likelihood"].dtype == torch.float64
        assert_same(ours, policy(td, env, engine="stock", **options))


def test_a_cold_policy_stays_feasible(engine):  # noqa: F811
    env, policy = make_env("cvrp"), make_policy("cvrp")
    options = {"decode_type": "multistart_greedy", "temperature": 1e-9}
    with torch.no_grad():
        out = policy(instances(env), env, engine=engine, **options)
    served = out["actions"].sort(-1).values[:, -9:]
    assert (served == torch.arange(1, 10)).all()


@pytest.mark.parametrize("tracked", [True, False])
def test_batch_statistics_are_of_the_whole_batch(tracked):
    env, td = make_env("cvrp", 12), None
    found = []
    for budget in (None, 0.2):
        policy = make_policy("cvrp", "batch norm" if tracked else "untracked norm").train(tracked)
        policy.set_rollouts(memory_budget=budget)
        td = instances(env, batch=16) if td is None else td
        with torch.no_grad():
            found.append(policy(td, env, decode_type="multistart_greedy"))
    assert_same(*found)


def test_a_method_replaced_on_the_object_is_seen(monkeypatch):
    env = make_env("cvrp")
    monkeypatch.setattr(env, "get_reward", lambda *_, **__: None)

    assert make_policy().plan(env).engine == "generic"


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("fast", {}, "Unknown engine 'fast'; use one of auto, lean, generic, stock"),
        ("lean", {"return_entropy": True}, "engine='lean' can't run this: return_entropy needs"),
        ("lean", {"top_k": 2}, "engine='lean' can't run this: top_p and top_k"),
        ("generic", {"decode_type": "beam_search"}, "decode_type='beam_search' needs RL4CO's own"),
    ],
)
def test_an_engine_that_cannot_says_why(engine, options, message):  # noqa: F811
    with pytest.raises(ValueError, match=message):
        make_policy().plan(make_env("cvrp"), engine, **options)


def test_lean_on_another_problem_says_why():
    env = get_env("op", generator_params={"num_loc": 5})
    with pytest.raises(ValueError, match="OPEnv does not step as RL4CO's CVRPEnv or TSPEnv"):
        FastPolicy(env_name="op", **SMALL).plan(env, "lean")


def test_settings_are_checked(policy):
    with pytest.raises(ValueError, match="Unknown engine"):
        policy.set_rollouts(engine="quick")
    with pytest.raises(ValueError, match="memory_budget must be positive"):
        policy.set_rollouts(memory_budget=0)
    with pytest.raises(ValueError, match="starts_per_update must be positive"):
        policy.set_rollouts(starts_per_update=0)
