import subprocess
import sys

import numpy as np
import pytest
import torch

from rl4co.envs import get_env

from rl4co_prompt import MultiTaskCVRPEnv, Task, TaskGenerator


def instances(**changes):
    td = TaskGenerator("5-uniform")(2, rng=0)
    for key, value in changes.items():
        td[key] = value
    return td


@pytest.mark.parametrize("first", ["rl4co_prompt", "rl4co.envs"])
def test_the_registry_knows_the_env_after_the_import_in_either_order(first):
    second = {"rl4co_prompt": "rl4co.envs", "rl4co.envs": "rl4co_prompt"}[first]
    code = (
        f"import {first}; import {second}; from rl4co.envs import get_env; "
        "print(get_env('multi_cvrp', task='30-grid').task.name)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout.strip() == "30-grid", result.stderr


def test_looking_for_rl4co_without_importing_it_does_not_lose_the_registration():
    code = (
        "import rl4co_prompt, importlib.util; importlib.util.find_spec('rl4co.envs'); "
        "from rl4co.envs import ENV_REGISTRY; print('multi_cvrp' in ENV_REGISTRY)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout.strip() == "True", result.stderr


def test_making_an_env_leaves_the_global_random_state_unless_a_seed_is_given():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    MultiTaskCVRPEnv()
    assert torch.equal(torch.rand(2), expected)
    env = MultiTaskCVRPEnv(seed=3)
    assert torch.equal(torch.rand(2), expected)
    env.set_seed(3)
    assert torch.equal(torch.rand(2), expected)


def test_rl4cos_way_of_naming_the_size_works():
    env = get_env("multi_cvrp", generator_params={"num_loc": 30, "geometry": "cluster"})

    assert env.task == Task(30, "cluster")
    assert env.name == "cvrp"


def test_a_task_change_takes_effect_on_the_next_batch(env):
    assert env.reset(batch_size=[2])["locs"].shape == (2, 11, 2)
    env.task = "15-grid"
    assert env.reset(batch_size=[2])["locs"].shape == (2, 16, 2)


def test_a_batch_can_be_reset_again_and_again(env):
    batch = env.generator(3, rng=0)
    keys = set(batch.keys())
    first = env.reset(batch)

    assert set(batch.keys()) == keys
    assert torch.equal(env.reset(batch)["locs"], first["locs"])
    assert torch.equal(env.reset(first)["locs"], first["locs"])  # also one that has its depot


def test_start_nodes_follow_the_data_not_the_generator(env):
    td = env.reset(TaskGenerator("17-uniform")(3))
    starts = env.select_start_nodes(td, env.get_num_starts(td)).view(17, 3)

    assert env.task.num_loc == 10
    assert torch.equal(starts, torch.arange(1, 18)[:, None].expand(17, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"locs": torch.full((2, 5, 2), torch.nan)}, "locs has a NaN"),
        ({"depot": torch.full((2, 2), torch.inf)}, "depot has a NaN or infinite"),
        ({"demand": torch.full((2, 5), 1.5)}, r"demand of 1\.5 exceeds the vehicle capacity"),
        ({"demand": torch.full((2, 5), -0.5)}, r"demand of -0\.5 is negative"),
        ({"locs": torch.rand(2, 4, 2)}, r"locs must be \[2, 5, 2\].*got \[2, 4, 2\]"),
        ({"locs": torch.rand(2, 6, 2)}, r"locs must be \[2, 5, 2\].*got \[2, 6, 2\]"),
        ({"depot": torch.rand(2, 3)}, r"depot \[2, 2\].*\[2, 3\]"),
        ({"locs": torch.rand(2, 0, 2), "demand": torch.rand(2, 0)}, "no customers"),
    ],
)
def test_bad_instances_get_one_sentence(env, changes, message):
    with pytest.raises(ValueError, match=message):
        env.reset(instances(**changes))


@pytest.mark.parametrize("key", ["locs", "depot", "demand"])
def test_missing_fields_are_named(env, key):
    with pytest.raises(ValueError, match=f"lack '{key}'"):
        env.reset(instances().exclude(key))


def test_a_demand_equal_to_the_capacity_is_served(env):
    td = env.reset(instances(demand=torch.ones(2, 5)))

    assert td["action_mask"][:, 1:].all()


def test_unknown_options_are_an_error_with_the_remedy():
    with pytest.raises(TypeError, match=r"Unknown option num_loc.*generator_params"):
        get_env("multi_cvrp", num_loc=50)
    with pytest.raises(ValueError, match="not several"):
        MultiTaskCVRPEnv("10-uniform", generator=TaskGenerator())


@pytest.mark.parametrize("kind", ["int", "float", "divided"])
def test_sets_load_with_raw_or_divided_demands(tmp_path, kind):
    td = TaskGenerator("8-uniform")(5, rng=0)
    raw = (td["demand"] * 20).round()
    demand = {"int": raw.int(), "float": raw, "divided": td["demand"]}[kind].numpy()
    np.savez(
        tmp_path / "set.npz",
        depot=td["depot"][:, None].numpy(),  # some files keep a node axis here
        customers=td["locs"].numpy(),
        demand=demand,
        capacity=np.full(5, 20),
        hgs_cost=np.arange(5.0),
    )
    loaded = MultiTaskCVRPEnv.load_data(tmp_path / "set.npz", 3)

    assert loaded.batch_size == (3,)
    assert torch.allclose(loaded["demand"], td["demand"][:3])
    assert torch.equal(loaded["locs"], td["locs"][:3])
    assert loaded["reference"].tolist() == [0, 1, 2]


def test_a_set_that_lacks_an_array_is_named(tmp_path):
    np.savez(tmp_path / "bad.npz", locs=np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match=r"bad\.npz lacks capacity, demand, depot"):
        MultiTaskCVRPEnv.load_data(tmp_path / "bad.npz")
    (tmp_path / "junk.npz").write_bytes((tmp_path / "bad.npz").read_bytes()[:100])
    with pytest.raises(ValueError, match=r"junk\.npz can't be read"):
        MultiTaskCVRPEnv.load_data(tmp_path / "junk.npz")


def test_a_set_that_is_not_there_is_an_error_not_random_instances(tmp_path):
    env = MultiTaskCVRPEnv(data_dir=str(tmp_path), test_file="typo.npz", val_file=["a.npz"])
    for phase, name in (("test", "typo"), ("val", "a")):
        with pytest.raises(FileNotFoundError, match=rf"{name}\.npz, the {phase} file"):
            env.dataset([], phase)
    assert len(env.dataset([3], "train")) == 3
