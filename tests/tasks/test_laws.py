import pytest
import torch

from rl4co_prompt import Task, TaskGenerator
from rl4co_prompt.tasks.laws import DEPOTS, Between, demand_from_name, place_depot
from rl4co_prompt.tasks.task import task_grid

NAMES = ["1-9", "1-1", "50-100", "quadrants", "many-small"]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def sample(name, batch=400, customers=100):
    xy = torch.rand(batch, customers, 2, generator=rng(1))
    return xy, demand_from_name(name).sample(xy, rng(2))


@pytest.mark.parametrize("name", NAMES)
def test_demands_have_the_stated_mean_and_limit(name):
    law, (_, demand) = demand_from_name(name), sample(name)
    each = demand.float().mean(1)  # of an instance; its customers are not independent

    assert law.name == name
    assert demand.min() >= 1
    assert demand.max() == law.largest
    assert abs(each.mean().item() - law.mean) <= 4 * each.std().item() / len(each) ** 0.5


def test_opposite_quarters_demand_alike():
    xy, demand = sample("quadrants")
    right, above = (xy > 0.5).unbind(-1)

    assert demand[right == above].max() == 50
    assert demand[right != above].min() == 51


def test_most_customers_demand_little():
    _, demand = sample("many-small")
    small = (demand <= 10).float().mean(1)

    assert not ((demand > 10) & (demand < 50)).any()
    assert small.mean().item() == pytest.approx(0.825, abs=0.02)
    assert small.std() > 0.06  # the share differs by instance


@pytest.mark.parametrize("place", DEPOTS)
def test_only_the_depot_is_moved(place):
    xy = torch.rand(50, 9, 2, generator=rng())
    moved = place_depot(xy, place, rng())

    assert torch.equal(moved[:, 1:], xy[:, 1:])
    if place != "random":
        assert (moved[:, 0] == (0.5 if place == "centre" else 0.0)).all()
    else:
        assert len({tuple(p) for p in moved[:, 0].tolist()}) == 50


def test_without_a_place_nothing_is_moved_and_nothing_drawn():
    xy, generator = torch.rand(2, 9, 2), rng()
    state = generator.get_state()

    assert place_depot(xy, None, generator) is xy
    assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("name", ["0-5", "9-1"])
def test_demands_rise_from_one(name):
    with pytest.raises(ValueError, match="rise from 1 or more"):
        demand_from_name(name)


@pytest.mark.parametrize("name", ["", "many", "1", "1-x", "-1-5"])
def test_an_unknown_demand_says_what_is_known(name):
    with pytest.raises(ValueError, match=r"Unknown demand.*LOW-HIGH.*quadrants.*many-small"):
        demand_from_name(name)


@pytest.mark.parametrize(
    "name",
    ["100-uniform:1-100", "100-grid@300:quadrants:corner", "50-mixed:centre", "20-attracted:1-1"],
)
def test_a_task_with_laws_reads_back(name):
    task = Task.from_name(name)

    assert task.name == name
    assert Task.from_name(task.name) == task


@pytest.mark.parametrize("name", ["50-grid:corner:centre", "50-grid:1-5:1-6"])
def test_a_law_is_given_once(name):
    with pytest.raises(ValueError, match="more than one demand or depot"):
        Task.from_name(name)


def test_the_usual_capacity_follows_the_mean_demand():
    assert Task(100, demand="1-100").capacity == 505  # as 50 for a mean of 5
    assert Task(100, demand="1-1").capacity == 10
    assert Task(100, demand="many-small").capacity == 177


def test_instances_follow_the_laws_of_their_task():
    td = TaskGenerator("40-attracted@200:50-100:corner")(8, rng=0)

    assert (td["depot"] == 0).all()
    assert (200 * td["demand"]).round().min() >= 50
    assert (td["capacity"] == 200).all()


def test_a_grid_of_tasks_has_all_combinations():
    tasks = task_grid(
        [10, 20], ["uniform"], [None, 4], demands=["1-9", "many-small"], depots=[None, "corner"]
    )

    assert len(tasks) == 16
    assert tasks[0] == Task(10)
    assert tasks[-1] == Task(20, "uniform", 100, "many-small", "corner")  # room for the largest
    assert Task(10, "uniform", 20) in tasks


def test_a_depot_elsewhere_is_refused():
    with pytest.raises(ValueError, match="depot must be one of centre, corner, random"):
        Task(10, depot="moon")


def test_the_papers_demands_are_the_default():
    assert Task(50).demand == Between(1, 9)
