import copy
import pickle

import pytest
import torch

from rl4co.envs import get_env
from rl4co.envs.routing import CVRPTWGenerator, OPGenerator, PCTSPGenerator

from rl4co_prompt import MultiTaskCVRPEnv, Task
from rl4co_prompt.tasks.problems import ProblemGenerator, check_problem, task_env, usual_length
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.task import PROBLEMS, only_problem, training_tasks, unseen_tasks

OTHERS = sorted(set(PROBLEMS) - {"cvrp"})


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("laws", ["", "gm-3-10", "cluster"])
def test_names_read_back(name, laws):
    text = f"{name}:10-{laws or 'uniform'}"

    assert Task.from_name(text).name == text
    assert Task.from_name(text.partition(":")[2], name) == Task.from_name(text)


@pytest.mark.parametrize(
    "text",
    ["cvrptw:20-grid@200:quadrants:corner", "sdvrp:20-uniform:1-100", "op:20-uniform:centre"],
)
def test_laws_read_back(text):
    assert Task.from_name(text).problem == text.partition(":")[0]
    assert Task.from_name(Task.from_name(text).name) == Task.from_name(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jssp:10-uniform", "Unknown problem 'jssp'"),
        ("pdp:11-uniform", "num_loc must be even, got 11"),
        ("tsp:10-uniform:corner", "tsp has no depot"),
        ("tsp:10-uniform@50", "neither capacity nor demands"),
        ("op:10-uniform:1-100", "neither capacity nor demands"),
        ("tsp:uniform", "Unknown task 'tsp:uniform'"),
    ],
)
def test_impossible_tasks_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        Task.from_name(name)


@pytest.mark.parametrize("name", OTHERS)
def test_rl4cos_own_reset_follows_the_task(name):
    env = task_env(f"{name}:10-cluster")
    env.generator.task = "14-uniform"
    td = env.generator(2, rng=0)
    ours, own = reset(env, td), env.reset(td.clone())

    assert torch.equal(ours["action_mask"], own["action_mask"])


def test_options_that_contradict_the_task_are_refused():
    with pytest.raises(TypeError, match="The task says what num_loc would"):
        task_env("tsp:10-uniform", {"num_loc": 20})


@pytest.mark.parametrize(("name", "policy"), [("tsp", "cvrp"), ("op", "pctsp"), ("cvrp", "tsp")])
def test_a_policy_of_another_problem_is_told(name, policy):
    env = task_env(f"{name}:10-uniform")
    with pytest.raises(ValueError, match=f"The policy is of {policy} and the environment of"):
        check_problem(env, policy)
    check_problem(env, name)
    check_problem(env, "mine")


def test_kindred_problems_share_a_policy():
    check_problem(task_env("sdvrp:10-uniform"), "cvrp")
    check_problem(task_env("pctsp:10-uniform"), "spctsp")


@pytest.mark.parametrize("name", OTHERS)
def test_instances_follow_the_task_and_the_seed(name):
    env = task_env(f"{name}:10-cluster")
    first, again, other = (env.generator(3, rng=seed) for seed in (5, 5, 6))
    nodes = reset(env, first)["action_mask"].shape[-1]

    assert all(torch.equal(first[key], again[key]) for key in first.keys())  # noqa: SIM118
    assert not torch.equal(first["locs"], other["locs"])
    env.generator.task = "14-uniform"
    assert reset(env, env.generator(2))["action_mask"].shape[-1] == nodes + 4
    assert env.generator.task == Task.from_name(f"{name}:14-uniform")


@pytest.mark.parametrize("name", OTHERS)
def test_the_map_is_the_tasks(name):
    """Customers of tight clusters lie nearer to each other than uniform ones."""

    def nearest(geometry):
        env = task_env(f"{name}:40-{geometry}")
        locs = env.generator(16, rng=0)["locs"] / env.generator.max_loc
        gaps = torch.cdist(locs, locs) + 9 * torch.eye(locs.shape[1])
        return gaps.amin(-1).mean()

    assert nearest("cluster") < 0.7 * nearest("uniform")


def test_a_seed_leaves_the_global_random_state_alone():
    generator = ProblemGenerator("tsp:10-uniform")
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    generator(2, rng=7)
    task_env("op:10-uniform")

    assert torch.equal(torch.rand(2), expected)
    torch.manual_seed(3)
    first = generator(2)
    torch.manual_seed(3)
    assert torch.equal(generator(2)["locs"], first["locs"])


def test_the_depot_is_where_the_task_puts_it():
    assert (task_env("cvrptw:10-uniform:corner").generator(3, rng=0)["depot"] == 0).all()
    assert (task_env("pdp:10-cluster:centre").generator(3, rng=0)["depot"] == 0.5).all()
    assert (task_env("cvrptw:10-cluster:centre").generator(3, rng=0)["depot"] == 75).all()


def test_demands_follow_their_law():
    drawn = task_env("cvrptw:30-uniform:50-100").generator(8, rng=0)
    capacity = Task.from_name("cvrptw:30-uniform:50-100").capacity
    units = drawn["demand"] * capacity

    assert units.min() >= 50 - 1e-3
    assert units.max() <= 100 + 1e-3
    assert (drawn["capacity"] == capacity).all()


@pytest.mark.parametrize("size", [20, 50, 100])
def test_lengths_are_rl4cos_at_its_sizes(size):
    assert usual_length(size) == OPGenerator(size).max_length
    theirs, ours = PCTSPGenerator(size), ProblemGenerator(f"pctsp:{size}-uniform")
    assert ours.max_penalty == theirs.max_penalty


def test_lengths_grow_with_the_size():
    lengths = [usual_length(size) for size in range(10, 301, 5)]

    assert lengths == sorted(lengths)
    assert usual_length(35) == pytest.approx(2.5)
    assert usual_length(400) == pytest.approx(8)


def test_time_windows_are_rl4cos():
    drawn = task_env("cvrptw:10-uniform").generator(4, rng=0)
    stock = CVRPTWGenerator(10)(4)

    assert {k: v.shape for k, v in drawn.items()} == {k: v.shape for k, v in stock.items()}
    assert drawn["time_windows"].max() == 480
    assert drawn["locs"].max() > 100


@pytest.mark.parametrize("prize_type", ["const", "unif", "dist"])
def test_all_prizes_of_op_work(prize_type):
    """RL4CO's generator reads an attribute that it lacks."""
    drawn = task_env("op:10-uniform", {"prize_type": prize_type}).generator(2, rng=0)

    assert drawn["prize"].shape == (2, 10)


def test_generator_options_are_rl4cos():
    assert task_env("op:10-uniform", {"max_length": 1.5}).generator(1)["max_length"] == 1.5
    agents = task_env("mtsp:10-uniform", {"min_num_agents": 2, "max_num_agents": 2})
    assert agents.generator(1)["num_agents"] == 2
    assert task_env("pdp:10-uniform", force_start_at_depot=True).force_start_at_depot
    with pytest.raises(TypeError, match="Unknown option max_lenght of OPGenerator"):
        task_env("op:10-uniform", {"max_lenght": 1.5})
    with pytest.raises(TypeError, match="Unknown option num_loc of TSPEnv"):
        task_env("tsp:10-uniform", num_loc=20)


def test_cvrp_has_its_own_environment():
    assert isinstance(task_env("10-uniform"), MultiTaskCVRPEnv)
    with pytest.raises(ValueError, match="drop generator_params"):
        task_env("10-uniform", {"num_loc": 5})
    with pytest.raises(ValueError, match="by TaskGenerator"):
        ProblemGenerator("10-uniform")
    with pytest.raises(ValueError, match="no task of CVRP"):
        MultiTaskCVRPEnv("tsp:10-uniform")


def test_a_task_of_another_problem_is_refused():
    env = task_env("tsp:10-uniform")
    with pytest.raises(ValueError, match="The instances are of tsp, the task op:10-uniform is not"):
        env.generator.task = "op:10-uniform"
    with pytest.raises(ValueError, match="tasks are of op, tsp"):
        only_problem([Task(10, problem="tsp"), Task(10, problem="op")])


def test_generators_can_be_copied_and_pickled():
    generator = ProblemGenerator("op:10-cluster")
    for twin in (
        copy.copy(generator),
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
    ):
        twin.task = "12-uniform"
        assert twin(2)["locs"].shape == (2, 12, 2)
    assert generator.task.num_loc == 10


def test_the_papers_tasks_are_there_for_every_problem():
    assert len(training_tasks("tsp")) == 341
    assert {task.num_loc % 2 for task in training_tasks("pdp")} == {0}
    assert {task.problem for task in unseen_tasks("op")} == {"op"}
    assert training_tasks() == training_tasks("cvrp")


def test_rl4co_finds_the_environment_by_name():
    env = get_env("multi_task", task="tsp:10-cluster")

    assert env.name == "tsp"
    assert env.generator.task.name == "tsp:10-cluster"
