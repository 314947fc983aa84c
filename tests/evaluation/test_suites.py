from dataclasses import replace

import numpy as np
import pytest

from rl4co_prompt.evaluation.generate import write_npz
from rl4co_prompt.evaluation.suites import (
    ORIGINS,
    SUITES,
    generated_set,
    load_suite,
    unrounded,
    with_references,
)
from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.task import Task, unseen_tasks
from rl4co_prompt.tasks.vrplib import write_sol, write_vrp
from tests.conftest import outside


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    monkeypatch.setenv("RL4CO_PROMPT_DATA", str(tmp_path))
    return tmp_path


def test_zero_shot_has_the_papers_twelve_sets():
    assert list(SUITES["zero-shot"]) == [task.name for task in unseen_tasks()]
    assert [ORIGINS[name].label for name in SUITES["zero-shot"]][:3] == ["50 CL", "50 EA", "50 EO"]


def test_sets_are_generated_where_no_file_is(no_data):
    sets = load_suite("zero-shot", limit=3, seed=7)

    assert [one.source for one in sets] == ["generated with seed 7"] * 12
    assert [len(one.instances) for one in sets] == [3] * 12
    assert sets[0].instances[0].num_customers == 50
    assert sets[0].reference_source == "none"


def test_the_first_instances_do_not_depend_on_their_number():
    few, many = (generated_set("a", Task(8), count, seed=3).instances for count in (2, 120))

    assert [i.digest for i in few] == [i.digest for i in many[:2]]
    assert len({i.digest for i in many}) == 120


def test_files_of_the_named_folder_are_used(no_data):
    instances = generated_set("a", Task(50), 5, seed=1).instances
    write_npz(instances, no_data / ORIGINS["uniform-50"].file)
    one = load_suite("uniform-50", limit=2)[0]

    assert one.source == ORIGINS["uniform-50"].file
    assert [i.digest for i in one.instances] == [i.digest for i in instances[:2]]


def test_an_unreadable_file_is_left_out_and_named(tmp_path):
    for instance in generated_set("a", Task(6), 3, seed=1).instances:
        write_vrp(instance, tmp_path / f"{instance.name}.vrp")
    (tmp_path / "6-uniform-1.vrp").write_text("NAME : broken")
    with pytest.warns(UserWarning, match=r"6-uniform-1\.vrp is left out of .*lacks NODE_COORD_SEC"):
        (one,) = load_suite(str(tmp_path))

    assert [i.name for i in one.instances] == ["6-uniform-0", "6-uniform-2"]
    assert [name for name, _ in one.left_out] == ["6-uniform-1.vrp"]


def test_a_bad_row_of_a_file_is_left_out_and_named(tmp_path):
    path = write_npz(generated_set("a", Task(6), 3, seed=1).instances, tmp_path / "set.npz")
    with np.load(path) as arrays:
        np.savez(path, **arrays, hgs_cost=[5.0, 0.0, np.nan])
    with pytest.warns(UserWarning, match="left out of set") as told:
        (one,) = load_suite(str(path))

    assert [i.name for i in one.instances] == ["set-0"]
    assert "set-1 is left out of set: reference must be a positive number" in str(told[0].message)
    assert [name for name, _ in one.left_out] == ["set-1", "set-2"]


def test_many_that_are_left_out_are_told_together(tmp_path):
    path = write_npz(generated_set("a", Task(6), 9, seed=1).instances, tmp_path / "set.npz")
    with np.load(path) as arrays:
        np.savez(path, **arrays, hgs_cost=[5.0] + [0.0] * 8)
    with pytest.warns(UserWarning, match="left out of set") as told:
        load_suite(str(path))

    assert len(told) == 6
    assert str(told[-1].message) == "More is left out of set: set-6, set-7, set-8."


def test_a_suite_without_a_good_instance_is_refused(tmp_path):
    (tmp_path / "a.vrp").write_text("NAME : broken")
    with pytest.raises(ValueError, match=r"No instance of .* can be used: .*a\.vrp is not a CVRP"):
        load_suite(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("20-uniform@3", "capacity must be a whole number of at least 9"), ("50-nowhere", "nowhere")],
)
def test_a_task_that_can_not_be_made_says_why(name, reason):
    with pytest.raises(ValueError, match=f"The suite {name} can't be generated: .*{reason}"):
        load_suite(name)


def test_cvrplib_is_never_made_up(no_data):
    with pytest.raises(FileNotFoundError, match="The set A is not at hand; let RL4CO_PROMPT_DATA"):
        load_suite("cvrplib")


@pytest.fixture
def sizes_of_x(no_data):
    """Make the set X of instances with so many customers, in the order of their names."""

    def write(*sizes):
        for name, size in zip("abc", sizes, strict=False):
            one = Instance(np.zeros((size + 1, 2)), np.ones(size), 10, name=name)
            write_vrp(one, no_data / "cvrplib" / "X" / f"{name}.vrp")

    return write


def test_x_keeps_only_instances_below_200_customers(sizes_of_x):
    """As the paper chooses them."""
    sizes_of_x(199, 200, 3)
    (one,) = load_suite("X")

    assert [i.num_customers for i in one.instances] == [199, 3]


def test_the_limit_counts_the_instances_that_are_kept(sizes_of_x):
    sizes_of_x(300, 4, 5)
    (one,) = load_suite("X", limit=1)

    assert [i.num_customers for i in one.instances] == [4]


def test_tasks_folders_and_files_are_suites(tmp_path):
    task = load_suite("12-grid", limit=2)[0]
    for instance in task.instances:
        write_vrp(instance, tmp_path / f"{instance.name}.vrp")
    file = write_npz(task.instances, tmp_path / "set.npz")

    assert task.name == "12-grid"
    for path in (tmp_path, file):
        one = load_suite(str(path))[0]
        assert [i.digest for i in one.instances] == [i.digest for i in task.instances]


@pytest.mark.parametrize("name", ["nothing", "a/folder"])
def test_unknown_names_are_told(name):
    with pytest.raises(ValueError, match=r"Unknown suite .* zero-shot, .* a task such as"):
        load_suite(name)
    with pytest.raises(ValueError, match="limit must be at least 1"):
        load_suite("uniform", limit=0)


def test_references_fill_gaps_and_keep_their_source():
    one = generated_set("a", Task(8), 2, seed=1)
    known = with_references([one], {one.instances[0].digest: (3.0, "hgs, 1 s")})[0]
    again = with_references([known], {i.digest: (9.0, "other") for i in one.instances})[0]

    assert [i.reference for i in known.instances] == [3.0, None]
    assert known.reference_source == "hgs, 1 s, none"
    assert [i.reference for i in again.instances] == [3.0, 9.0]


def test_published_sets_have_published_references():
    outside("uniform/mvmoe_cvrp100_uniform_0-499.npz")
    sets = load_suite("uniform", limit=50)

    assert np.mean([i.reference for i in sets[1].instances]) == pytest.approx(15.453, abs=0.001)
    assert sets[1].reference_source == "hgs_cost of mvmoe_cvrp100_uniform_0-499.npz"


def test_cvrplib_has_the_papers_115_instances():
    outside("cvrplib")
    sets = load_suite("cvrplib")

    assert [len(one.instances) for one in sets] == [27, 23, 23, 22, 20]
    assert all(i.reference and i.rounding == "nearest" for one in sets for i in one.instances)
    assert sets[0].reference_source == "the .sol beside each file"


def test_maps_of_one_seed_are_independent():
    """Explosion and grid move few of their uniform points; they must not share them."""
    a, b = (generated_set(n, Task.from_name(n), 3, seed=1) for n in ("50-explosion", "50-grid"))
    points = [{tuple(xy) for i in one.instances for xy in i.coordinates} for one in (a, b)]

    assert not points[0] & points[1]


def test_unrounded_sets_are_measured_in_real_lengths(tmp_path):
    one = generated_set("a", Task(4), 1, seed=1).instances[0]
    grid = replace(one, coordinates=np.round(10 * one.coordinates), rounding="nearest")
    routes = [[1], [2], [3], [4]]
    for file, more in (("known", 0), ("stated", 1)):
        write_vrp(replace(grid, name=file), tmp_path / f"{file}.vrp")
        write_sol(routes, grid.rounded_cost(routes) + more, tmp_path / f"{file}.sol")
    with pytest.warns(UserWarning, match=r"stated\.sol do not have the cost"):
        known, stated = unrounded(load_suite(str(tmp_path))[0]).instances

    assert known.rounding == "none"
    assert known.reference == pytest.approx(grid.exact_cost(routes))
    assert known.source == "routes of known.sol, unrounded"
    assert stated.reference is None  # its routes have another cost
