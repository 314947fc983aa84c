import math

import pytest

from hypothesis import given, strategies as st

from rl4co_prompt.tasks.geometry import Cluster, Uniform
from rl4co_prompt.tasks.task import (
    TRAINING_GEOMETRIES,
    Task,
    as_task,
    batch_size_for,
    default_capacity,
    training_tasks,
    unseen_tasks,
)


def test_the_training_tasks_are_the_papers_in_order():
    tasks = training_tasks()

    assert len(tasks) == 341
    assert len({task.name for task in tasks}) == 341
    assert tasks[0] == Task(50, Uniform())
    assert [task.name for task in tasks[1:4]] == ["50-gaussian", "50-gm-3-10", "50-gm-3-30"]
    assert tasks[-1].name == "200-gm-7-50"
    for size in (50, 125, 200):
        for index, geometry in enumerate(TRAINING_GEOMETRIES):
            assert tasks[11 * ((size - 50) // 5) + index].name == f"{size}-{geometry}"


def test_the_unseen_tasks_are_six_maps_at_two_sizes():
    tasks = unseen_tasks()

    assert [task.num_loc for task in tasks] == [50] * 6 + [100] * 6
    assert tasks[0] == Task(50, Cluster())
    assert not {task.name for task in tasks} & {task.name for task in training_tasks()}


@pytest.mark.parametrize(("size", "capacity"), [(50, 40), (55, 41), (60, 42), (100, 50), (200, 70)])
def test_capacity_follows_the_papers_formula(size, capacity):
    assert Task(size).capacity == capacity == math.ceil(30 + size / 5)


def test_small_instances_have_a_capacity_of_twenty():
    assert default_capacity(10) == 20


@pytest.mark.parametrize(
    ("size", "batch"), [(50, 64), (100, 64), (105, 32), (145, 32), (150, 16), (200, 16)]
)
def test_batches_shrink_with_size_as_in_the_authors_code(size, batch):
    assert batch_size_for(size) == batch


@pytest.mark.parametrize(("size", "batch"), [(50, 64), (150, 64), (155, 32), (200, 32), (300, 32)])
def test_batches_of_other_sizes_can_be_named(size, batch):
    assert batch_size_for(size, {200: 32, 150: 64}) == batch


@given(
    size=st.integers(1, 2000),
    geometry=st.sampled_from(["uniform", "gm-3-10", "gm-5-30-even", "explosion-outward"]),
    capacity=st.one_of(st.none(), st.integers(9, 500)),
)
def test_a_name_reads_back(size, geometry, capacity):
    task = Task(size, geometry, capacity)

    assert Task.from_name(task.name) == task
    assert as_task(task.name) == as_task(task) == task


@pytest.mark.parametrize("name", ["", "50", "uniform", "x-uniform", "50-uniform@", "50-uniform@x"])
def test_an_unknown_task_says_how_to_write_one(name):
    with pytest.raises(ValueError, match=r"Unknown task.*SIZE-GEOMETRY"):
        Task.from_name(name)


@pytest.mark.parametrize("size", [0, -5, 2.5, "50"])
def test_a_size_must_be_a_positive_whole_number(size):
    with pytest.raises(ValueError, match="num_loc must be a whole number of at least 1"):
        Task(size)


@pytest.mark.parametrize("capacity", [8, 0, 40.5])
def test_a_capacity_below_the_largest_demand_is_refused(capacity):
    with pytest.raises(ValueError, match="capacity must be a whole number of at least 9"):
        Task(50, capacity=capacity)


def test_a_geometry_of_another_type_is_refused():
    with pytest.raises(ValueError, match="geometry must be a Geometry or a name, got 3"):
        Task(50, geometry=3)
