import warnings

import pytest
import torch

from rl4co.envs import get_env

from rl4co_prompt import (
    POMOPolicy,
    PromptedPolicy,
    PromptPool,
    add_distribution,
    fit_keys,
    merge_pools,
    task_env,
)
from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.policy.features import get_feature, instance_features
from rl4co_prompt.policy.pool import Keys
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.training.grow import Training, as_pool
from tests.conftest import TASKS

FAR = "30-uniform@9:1-1"
SHORT = Training(steps=3, batch_size=4, num_starts=4, lr=0.1)
QUIET = {"training": SHORT, "progress": False}


@pytest.fixture
def far(env):
    """Instances that are unlike the pool's tasks."""
    env.task = FAR
    return env.generator(6, rng=0)


@pytest.fixture
def near(env):
    env.task = TASKS[0]
    return env.generator(16, rng=1)


def make_pool(backbone, feature="code", gated=False, seed=1, tasks=TASKS):
    keys = fit_keys(backbone, tasks, 8, groups=1, clusters=3, feature=feature, progress=False)
    torch.manual_seed(seed)
    pool = PromptPool.for_backbone(
        backbone, 3, 2, feature=feature, init_scale=1.0, gated=gated
    ).set_keys(keys)
    if gated:
        with torch.no_grad():
            pool.gate.uniform_(0.2, 1)
    return pool


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("feature", ["code", "paper"])
def test_old_pairs_stay_bit_for_bit_and_one_is_new(backbone, env, far, feature, gated):
    pool = make_pool(backbone, feature, gated)
    before = {key: value.clone() for key, value in pool.state_dict().items()}
    grown = add_distribution(pool, far, backbone, env, **QUIET)

    assert all(torch.equal(value, before[key]) for key, value in pool.state_dict().items())
    assert grown.num_prompts == 4
    for name in ("keys", "prompts", *(["gate"] if gated else [])):
        assert torch.equal(getattr(grown, name)[:3], getattr(pool, name))
    assert torch.equal(grown.feature_mean, pool.feature_mean)
    assert torch.equal(grown.feature_std, pool.feature_std)
    assert grown.tasks == (*pool.tasks, "own")


@pytest.mark.parametrize("feature", ["code", "paper"])
def test_the_new_key_is_the_mean_feature_as_selection_sees_it(backbone, env, far, feature):
    pool = make_pool(backbone, feature)
    grown = add_distribution(pool, far, backbone, env, **QUIET)
    found, *_ = instance_features(backbone.encoder, env.reset(far), get_feature(feature))
    if feature == "paper":
        found = (found - pool.feature_mean) / pool.feature_std

    assert torch.allclose(grown.keys[3], found.mean(0), atol=1e-5)
    policy = PromptedPolicy(backbone, grown)
    assert policy.explain(env.reset(far)).prompts.tolist() == [3] * 6


def test_old_instances_keep_their_results(backbone, env, far, near):
    pool = make_pool(backbone)
    grown = add_distribution(pool, far, backbone, env, **QUIET)
    old, new = (PromptedPolicy(backbone, p).eval() for p in (pool, grown))
    td = env.reset(near)
    with torch.no_grad():
        ours, theirs = (p(td, env, decode_type="multistart_greedy") for p in (new, old))

    assert 3 not in ours["prompt"]
    for key in ("prompt", "actions", "reward", "log_likelihood"):
        assert torch.equal(ours[key], theirs[key])


def test_the_new_prompt_is_never_worse_on_the_instances(backbone, env, far):
    pool = make_pool(backbone)
    grown = add_distribution(
        pool, far, backbone, env, training=Training(30, 8, 8, lr=0.1), progress=False
    )
    td = env.reset(far)
    old = PromptedPolicy(backbone, pool).eval()
    used = old.explain(td).prompts.mode().values.expand(6)
    costs = []
    for one, prompt in ((pool, used), (grown, torch.full((6,), 3))):
        policy = PromptedPolicy(backbone, one).eval()
        with torch.no_grad():
            out = policy(td.copy().set("prompt", prompt), env, decode_type="multistart_greedy")
        costs.append(-out["reward"].view(-1, 6).amax(0))

    assert (costs[1] / costs[0]).mean() < 1
    assert not torch.equal(grown.prompts[3], pool.prompts[int(used[0])])


def test_the_seed_decides(backbone, env, far):
    pool = make_pool(backbone)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    grown = [add_distribution(pool, far, backbone, env, **QUIET) for _ in range(2)]

    assert torch.equal(grown[0].prompts, grown[1].prompts)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_task_gives_fresh_instances_and_its_name(backbone, far):
    pool = make_pool(backbone)
    grown = add_distribution(pool, far, backbone, task=FAR, **QUIET)

    assert grown.tasks[-1] == FAR
    alone = add_distribution(pool, far, backbone, name="mine", **QUIET)
    assert alone.tasks[-1] == "mine"


def test_instances_of_several_sizes_in_their_own_units(backbone, env, far):
    pool = make_pool(backbone)
    env.task = "20-uniform@9:1-1"
    other = env.generator(2, rng=3)
    together = add_distribution(pool, [far, other], backbone, **QUIET)
    units = read_instances(far) + read_instances(other)
    grown = add_distribution(pool, units, backbone, **QUIET)

    assert together.num_prompts == grown.num_prompts == 4


def test_a_prompted_policy_is_enough(backbone, far):
    pool = make_pool(backbone)
    policy = PromptedPolicy(backbone, pool)
    grown = add_distribution(policy, far, **QUIET)

    assert torch.equal(grown.prompts, add_distribution(pool, far, backbone, **QUIET).prompts)
    assert torch.equal(grown.prompts, add_distribution(pool, far, policy, **QUIET).prompts)


def test_the_pool_that_ships_grows_by_its_name(far):
    grown = add_distribution("cvrp", far[:2], training=Training(1, 2, 2), progress=False)

    assert grown.num_prompts == as_pool("cvrp").num_prompts + 1


@pytest.mark.parametrize("name", ["tsp", "op", "pdp", "shpp", "smtwtp"])
def test_pools_of_other_problems_grow(name):
    torch.manual_seed(0)
    backbone = POMOPolicy(name, 16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32).eval()
    pool = PromptPool.for_backbone(backbone, 1, 2)
    if name in ("shpp", "smtwtp"):
        from tests.facts import FACTS

        env = next(fact for fact in FACTS if fact.name == name).env()
        width = pool.keys.shape[1]
        pool.set_keys(Keys(torch.ones(1, width), torch.zeros(width), torch.ones(width), "code"))
    else:
        env = task_env(f"{name}:10-cluster")
        pool.set_keys(fit_keys(backbone, ["10-uniform"], 4, groups=1, clusters=1, progress=False))
    torch.manual_seed(2)
    instances = env.generator(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grown = add_distribution(pool, instances, backbone, env, **QUIET)
    policy = PromptedPolicy(backbone, grown).eval()
    with torch.no_grad():
        out = policy(reset(env, instances), env, decode_type="greedy")

    assert grown.num_prompts == 2
    assert torch.isfinite(out["reward"]).all()


def test_a_grown_pool_can_be_saved_and_grow_again(backbone, env, far, near, tmp_path):
    pool = make_pool(backbone)
    path = add_distribution(pool, far, backbone, env, **QUIET).save(tmp_path / "pool.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice = add_distribution(path, near, backbone, env, **QUIET)

    assert twice.num_prompts == 5
    assert torch.equal(twice.prompts[:4], PromptPool.load(path).prompts)


def test_instances_that_the_pool_knows_already_are_told(backbone, env):
    pool = make_pool(backbone)
    mixed = []
    for task in TASKS:
        env.task = task
        mixed.append(env.generator(8, rng=4))
    with pytest.warns(UserWarning, match="of the instances are nearest to their own new key"):
        add_distribution(pool, mixed, backbone, env, **QUIET)


@pytest.mark.parametrize("feature", ["code", "paper"])
def test_merged_pools_have_the_pairs_of_both(backbone, feature):
    a = make_pool(backbone, feature)
    b = make_pool(backbone, feature, seed=2, tasks=[TASKS[0], "20-uniform"])
    merged = merge_pools(a, b)

    assert torch.equal(merged.keys[:3], a.keys)
    assert torch.equal(merged.prompts, torch.cat((a.prompts, b.prompts)))
    assert merged.tasks == (*TASKS, "20-uniform")
    # Keys mean the same features, whatever the statistics.
    raw = merged.keys[3:] * merged.feature_std + merged.feature_mean
    if feature == "paper":
        assert torch.allclose(raw, b.keys * b.feature_std + b.feature_mean, atol=1e-4)
    else:
        assert torch.equal(merged.keys[3:], b.keys)
    assert PromptedPolicy(backbone, merged).pool.num_prompts == 6


@pytest.mark.parametrize("feature", ["code", "paper"])
def test_pools_that_grew_from_one_share_its_pairs_when_merged(backbone, env, far, near, feature):
    pool = make_pool(backbone, feature, gated=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, theirs = (
            add_distribution(pool, instances, backbone, env, name=name, **QUIET)
            for name, instances in (("mine", far), ("theirs", near))
        )
    merged = merge_pools(mine, theirs)

    for part in ("keys", "prompts", "gate"):
        ours, last = getattr(mine, part), getattr(theirs, part)[-1:]
        assert torch.equal(getattr(merged, part), torch.cat((ours, last)))
    assert merged.tasks == (*TASKS, "mine", "theirs")
    assert merge_pools(mine, pool).num_prompts == mine.num_prompts


def test_of_equal_keys_the_first_pools_prompt_is_the_nearest(backbone, env, near):
    a, b = make_pool(backbone), make_pool(backbone, seed=2)
    assert torch.equal(a.keys, b.keys)
    td = env.reset(near)
    alone, merged = (PromptedPolicy(backbone, p).eval() for p in (a, merge_pools(a, b)))
    with torch.no_grad():
        ours, theirs = (p(td, env, decode_type="multistart_greedy") for p in (merged, alone))

    assert merged.pool.num_prompts == 6
    assert torch.equal(ours["prompt"], theirs["prompt"])
    assert torch.equal(ours["reward"], theirs["reward"])
    assert torch.equal(merged.explain(td).prompts, theirs["prompt"])
    assert (merged.explain(td).keys[:, 1] == theirs["prompt"] + 3).all()


def test_only_pools_of_one_kind_merge(backbone):
    a = make_pool(backbone)
    torch.manual_seed(9)
    other = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    for b, what in (
        (make_pool(other.eval()), "backbone"),
        (make_pool(backbone, "paper"), "feature"),
        (make_pool(backbone, gated=True), "gate"),
    ):
        with pytest.raises(ValueError, match=f"The pools differ in {what}"):
            merge_pools(a, b)
    with pytest.raises(ValueError, match="bound to no backbone"):
        merge_pools(PromptPool(2, 2, 2, 16), PromptPool(2, 2, 2, 16))


def test_what_can_not_grow_is_refused(backbone, env, far, tmp_path):
    pool = make_pool(backbone)
    other = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    with pytest.raises(ValueError, match="The pool belongs to backbone"):
        add_distribution(pool, far, other, env)
    with pytest.raises(ValueError, match="The pool has no keys"):
        add_distribution(PromptPool.for_backbone(backbone, 1, 2), far, backbone, env)
    with pytest.raises(ValueError, match="at least one instance"):
        add_distribution(pool, far[:0], backbone, env)
    with pytest.raises(ValueError, match="CVRPEnv draws instances of no task"):
        add_distribution(pool, far, backbone, get_env("cvrp"), task=FAR)
    with pytest.raises(ValueError, match="policy is of cvrp and the environment of tsp"):
        add_distribution(pool, far, backbone, get_env("tsp"))
    with pytest.raises(ValueError, match="num_starts must be at least 2, got 1"):
        Training(num_starts=1)
    with pytest.raises(TypeError, match="instances must be a TensorDict"):
        add_distribution(pool, [3], backbone, env)
    with pytest.raises(TypeError, match="instances must be a TensorDict"):
        add_distribution(pool, backbone, far)
    with pytest.raises(TypeError, match="A backbone is an attention policy"):
        add_distribution(pool, far, 3)
    with pytest.raises(FileNotFoundError, match="No prompt pool"):
        as_pool(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        Training(steps=0)
