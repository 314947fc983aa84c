import numpy as np
import pytest
import torch

from rl4co.envs import get_env
from sklearn.cluster import KMeans

from rl4co_prompt import POMOPolicy, PromptedPolicy, PromptPool, fit_keys, task_env
from rl4co_prompt.policy.backbone import fingerprint
from rl4co_prompt.policy.features import get_feature
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.task import Task, as_task, training_tasks
from rl4co_prompt.training.keys import cached_keys, fit_keys_to, size_groups, task_features

TASKS = ["10-uniform", "10-cluster", "12-uniform", "14-gm-3-10", "16-grid"]


def fit(backbone, tasks=TASKS, **options):
    options = {"per_task": 8, "groups": 2, "clusters": 2, "progress": False} | options
    return fit_keys(backbone, tasks, **options)


@pytest.mark.parametrize("feature", ["code", "paper"])
def test_keys_are_the_centres_of_each_size_group_in_ascending_order(backbone, feature):
    keys = fit(backbone, feature=feature)
    vectors = task_features(backbone, [as_task(t) for t in TASKS], 8, 0, feature).double()
    if get_feature(feature).standardise:
        flat = vectors.flatten(0, 1)
        vectors = (vectors - flat.mean(0)) / flat.std(0, correction=0)
    # Sizes 10, 12 | 14, 16.
    groups = [vectors[:3].flatten(0, 1), vectors[3:].flatten(0, 1)]
    centres = [KMeans(2, n_init=10, random_state=0).fit(g.numpy()).cluster_centers_ for g in groups]

    assert torch.allclose(keys.keys, torch.from_numpy(np.concatenate(centres)).float(), atol=1e-5)
    assert keys.tasks == tuple(TASKS)


def test_the_papers_sizes_fall_into_groups_of_8_8_8_7():
    sizes = size_groups({task.num_loc for task in training_tasks()}, 4)

    assert [len(group) for group in sizes] == [8, 8, 8, 7]
    assert [(group[0], group[-1]) for group in sizes] == [
        (50, 85),
        (90, 125),
        (130, 165),
        (170, 200),
    ]


def test_the_seed_decides_the_keys(backbone):
    assert torch.equal(fit(backbone, seed=3).keys, fit(backbone, seed=3).keys)
    assert not torch.equal(fit(backbone, seed=3).keys, fit(backbone, seed=4).keys)


def test_keys_of_a_prompted_policy_are_its_backbones(backbone):
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, 2))
    a, b = (fit(p) for p in (backbone, policy))

    assert torch.equal(a.keys, b.keys)
    assert a.backbone == b.backbone
    with pytest.raises(TypeError, match="A backbone is an attention policy"):
        fit_keys("cvrp", TASKS)


@pytest.mark.parametrize(("groups", "clusters"), [(1, 1), (1, 20), (3, 2), (4, 4)])
def test_any_pool_size_can_be_fitted(backbone, groups, clusters):
    keys = fit(backbone, groups=groups, clusters=clusters)
    pool = PromptPool.for_backbone(backbone, groups * clusters, 1).set_keys(keys)

    assert pool.has_keys


def test_code_keys_are_means_of_unit_vectors(backbone):
    assert (fit(backbone).keys.norm(dim=-1) <= 1 + 1e-6).all()


def test_a_constant_feature_does_not_divide_by_zero(backbone):
    with torch.no_grad():
        backbone.encoder.init_embedding.init_embed.weight.zero_()
        backbone.encoder.init_embedding.init_embed_depot.weight.zero_()
        backbone.encoder.init_embedding.init_embed.bias.zero_()
        backbone.encoder.init_embedding.init_embed_depot.bias.zero_()
    keys = fit(backbone, ["10-uniform"], feature="paper", groups=1, clusters=1)

    assert torch.isfinite(keys.keys).all()
    assert (keys.std == 1).all()
    with pytest.raises(ValueError, match="fewer than 2 different keys among 8 instances"):
        fit(backbone, ["10-uniform"], feature="paper", groups=1, clusters=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 5}, "groups=5 exceeds the 4 different sizes"),
        ({"clusters": 17}, "clusters=17 exceeds the 16 instances of sizes 14 to 16"),
        ({"clusters": 0}, "clusters must be at least 1, got 0"),
        ({"per_task": 0}, "per_task must be at least 1"),
        ({"tasks": []}, "at least one task"),
        ({"tasks": ["10-unifrom"]}, "Unknown geometry 'unifrom'"),
        ({"feature": "mean"}, "Unknown feature 'mean'"),
    ],
)
def test_counts_that_kmeans_cant_give_are_refused(backbone, options, message):
    with pytest.raises(ValueError, match=message):
        fit(backbone, **options)


def test_fitting_changes_neither_backbone_nor_its_mode(backbone):
    backbone.train()
    before = {k: v.clone() for k, v in backbone.state_dict().items()}
    fit(backbone)

    assert backbone.encoder.training
    assert all(torch.equal(v, before[k]) for k, v in backbone.state_dict().items())


def test_cached_keys_are_fitted_once_per_recipe(backbone, tmp_path, monkeypatch):
    options = {"per_task": 8, "groups": 2, "clusters": 2, "progress": False}
    first = cached_keys(tmp_path)(backbone, TASKS, **options)
    other = cached_keys(tmp_path)(backbone, TASKS, **options | {"seed": 1})
    monkeypatch.setattr("rl4co_prompt.training.keys.fit_keys", None)  # must not be called again
    options["progress"] = True  # does not matter
    again = cached_keys(tmp_path)(backbone, [Task.from_name(t) for t in TASKS], **options)

    assert torch.equal(first.keys, again.keys)
    assert (first.feature, first.tasks) == (again.feature, again.tasks)
    assert first.backbone == again.backbone == fingerprint(backbone)
    assert not torch.equal(first.keys, other.keys)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["tsp", "cvrptw", "op", "pctsp", "pdp", "mtsp", "mtvrp"])
def test_keys_of_other_problems(name):
    torch.manual_seed(0)
    policy = POMOPolicy(name, 16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32).eval()
    keys = fit(policy, ["10-uniform", f"{name}:10-cluster", "12-gm-3-10"])
    pool = PromptPool.for_backbone(policy, 4, 2).set_keys(keys)
    env = task_env(f"{name}:10-cluster")
    prompted = PromptedPolicy(policy, pool).eval()
    with torch.no_grad():
        out = prompted(
            reset(env, env.generator(3, rng=0)), env, decode_type="greedy", num_prompts=2
        )

    assert keys.tasks[0] == f"{name}:10-uniform"
    assert out["prompt"].shape == (3,)
    with pytest.raises(ValueError, match=f"tasks are of sdvrp, the backbone is of {name}"):
        fit(policy, ["sdvrp:10-uniform", "sdvrp:12-uniform"])


def test_keys_of_an_environment_with_options_of_its_own():
    torch.manual_seed(0)
    policy = POMOPolicy("op", 16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32).eval()
    env = task_env("op:11-uniform", {"prize_type": "const"})
    usual, own = (fit(policy, ["10-uniform", "12-uniform"], env=e).keys for e in (None, env))

    assert not torch.equal(usual, own)
    assert env.generator.task.num_loc == 11


@pytest.mark.parametrize("feature", ["code", "paper"])
def test_keys_of_given_instances(backbone, env, feature):
    env.task = TASKS[0]
    batch = env.generator(8, rng=0)
    keys = fit_keys_to(backbone, env, [batch], 2, feature=feature, names=["mine"])

    assert torch.equal(keys.keys, fit(backbone, TASKS[:1], groups=1, feature=feature).keys)
    assert keys.tasks == ("mine",)
    with pytest.raises(ValueError, match="clusters=9 exceeds the 8 instances"):
        fit_keys_to(backbone, env, [batch], 9)


def test_keys_of_a_problem_without_tasks():
    torch.manual_seed(0)
    policy = POMOPolicy("smtwtp", 16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    env = get_env("smtwtp", generator_params={"num_job": 8})
    other = get_env("smtwtp", generator_params={"num_job": 12})
    keys = fit_keys_to(policy.eval(), env, [env.generator(8), other.generator(8)], 2)
    pool = PromptPool.for_backbone(policy, 2, 2).set_keys(keys)
    prompted = PromptedPolicy(policy, pool).eval()
    with torch.no_grad():
        out = prompted(reset(env, other.generator(4)), env, decode_type="multistart_greedy")

    assert len(out["reward"]) == 4 * 12
