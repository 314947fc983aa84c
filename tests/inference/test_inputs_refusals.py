"""What is no instance, and the sentence it is refused with."""

import io

import numpy as np
import pytest
import torch

from rl4co.envs import CVRPTWEnv

from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.tasks.instance import Instance
from tests.inference.forms import DEMAND, arrays, batch, sentence, tensordict


@pytest.mark.parametrize("x", [5, None, np.zeros((3, 2)), iter([]), {1}, [5], ["a.vrp", None][1:]])
def test_something_else_is_refused_with_what_can_be_given(x):
    told = sentence(x, TypeError)

    assert told.startswith("Can't solve a ")
    assert told.endswith(
        "give a .vrp, .csv or .npz file, a folder, a table of x, y, demand, a TensorDict, or a "
        "mapping or tuple of depot, customers, demand and capacity."
    )


def test_a_path_that_leads_nowhere_is_named(tmp_path):
    told = sentence(tmp_path / "none.vrp", FileNotFoundError)

    assert told == f"No file or folder at {tmp_path / 'none.vrp'}."


def test_an_unknown_ending_is_named(tmp_path):
    path = tmp_path / "a.tsp"
    path.write_text("x")

    assert sentence(path) == f"{path} has the unknown ending '.tsp'; expected .vrp, .csv or .npz."


def test_a_folder_without_instances_is_refused(tmp_path):
    assert sentence(tmp_path) == f"There is no .vrp file in {tmp_path}."


@pytest.mark.parametrize("key", ["depot", "customers", "demand", "capacity"])
def test_a_mapping_must_have_all_of_an_instance(key):
    made = arrays()
    del made[key]

    assert sentence(made) == (f"instance lacks {key}; give depot, customers, demand and capacity.")


SHAPES = "customers must be [n, 2] and demand [n], or both with a leading axis of instances; got "
ONE_EACH = "instance: depot must be [2] and capacity a number, or one of each per instance."


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"demand": [1, 2]}, f"instance: {SHAPES}[3, 2] and [2]."),
        ({"demand": [[1], [2], [3]]}, f"instance: {SHAPES}[3, 2] and [3, 1]."),
        ({"customers": [[1, 2, 3]] * 3}, f"instance: {SHAPES}[3, 3] and [3]."),
        ({"customers": [], "demand": []}, f"instance: {SHAPES}[0] and [0]."),
        ({"demand": 4}, f"instance: {SHAPES}[3, 2] and []."),
        ({"customers": 4, "demand": 4}, f"instance: {SHAPES}[] and []."),
        (
            {"customers": np.zeros((0, 2)), "demand": []},
            "instance has no customers; give at least one.",
        ),
        ({"depot": [1, 2, 3]}, ONE_EACH),
        ({"depot": []}, ONE_EACH),
        ({"depot": None}, ONE_EACH),
        ({"depot": [[1, 2], [3, 4]]}, ONE_EACH),
        ({"capacity": []}, ONE_EACH),
        ({"capacity": [5, 6]}, ONE_EACH),
        ({"capacity": "x"}, "instance: capacity must be numbers."),
        ({"demand": ["a", "b", "c"]}, "instance: demand must be numbers."),
        ({"demand": [1, 2, np.nan]}, "instance: demand has a NaN or infinite value."),
        (
            {"customers": [[0, 1], [2], [3, 4]]},
            "Arrays must be rectangular; got rows of different lengths.",
        ),
        ({"reference": [1, 2]}, "instance: reference must have one cost per instance."),
        ({"reference": np.nan}, "instance: reference has a NaN or infinite value."),
        ({"demand": [4, 5, 11]}, "instance: customer 3 demands 11, above the capacity of 10; spl"),
    ],
)
def test_a_mapping_that_is_no_instance_gets_its_sentence(changes, told):
    assert sentence(arrays(**changes)).startswith(told)


@pytest.mark.parametrize("key", ["demands", "Demand", "distance", 5])
def test_a_mapping_with_an_unknown_key_is_refused(key):
    assert sentence({**arrays(), key: [1, 2, 3]}) == (
        f"The mapping has {key}, which is no part of a CVRP; it may have capacity, customers, "
        "demand, depot, hgs_cost, locs, name, reference."
    )


def test_a_reference_that_is_no_number_is_named():
    assert "reference" in sentence(arrays(reference="x"))


def test_one_bad_instance_of_a_batch_is_named():
    assert sentence(batch(demand=np.array([DEMAND, [1, 2, 99]]))) == (
        "instance-1: customer 3 demands 99, above the capacity of 9; split it."
    )


def test_one_bad_instance_of_a_tensordict_is_named():
    td = torch.cat([tensordict(), tensordict(demand=torch.tensor([[0.1, 0.2, -0.5]]))])

    assert "instance-1: customer 3 has the negative demand" in sentence(td)


def test_an_instance_of_a_tensordict_that_needs_more_than_a_vehicle_is_refused():
    assert "above the capacity" in sentence(tensordict(demand=torch.tensor([[0.1, 0.2, 1.5]])))


@pytest.mark.parametrize("key", ["locs", "demand"])
def test_a_tensordict_must_have_customers_and_demands(key):
    assert sentence(tensordict().exclude(key)) == f"The TensorDict lacks {key}; it is no CVRP."


def test_a_tensordict_must_have_a_depot():
    assert sentence(tensordict(depot=None)) == "The TensorDict has no depot."


def test_time_windows_are_not_ignored_in_a_tensordict():
    env = CVRPTWEnv(generator_params={"num_loc": 10})

    assert "time_windows" in sentence(env.generator([2]).exclude("durations"))


def test_time_windows_are_not_ignored_in_a_mapping():
    assert "time_windows" in sentence(arrays(time_windows=[[0, 1]] * 4))


def saved(**fields):
    file = io.BytesIO()
    np.savez(file, **fields)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", saved(**arrays())[:200], saved(demand=np.array([None]))],
    ids=["empty", "text", "half", "objects"],
)
def test_an_npz_file_that_is_none_gets_its_sentence(tmp_path, content):
    path = tmp_path / "set.npz"
    path.write_bytes(content)

    assert sentence(path) == f"{path} can't be read; expected an .npz file of plain arrays."


def test_an_array_in_place_of_an_archive_gets_its_sentence(tmp_path):
    path = tmp_path / "set.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))

    assert sentence(path) == f"{path} can't be read; expected an .npz file of plain arrays."


def test_an_npz_file_with_flipped_bytes_is_read_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    content = np.frombuffer(saved(**batch()), np.uint8)
    path = tmp_path / "set.npz"
    for _ in range(300):
        flipped = content.copy()
        flipped[rng.integers(len(flipped), size=rng.integers(1, 4))] = rng.integers(256)
        path.write_bytes(flipped.tobytes())
        try:
            found = read_instances(path)
        except (ValueError, OSError):
            continue
        assert all(isinstance(x, Instance) for x in found)


def test_an_npz_file_without_customers_names_what_it_lacks(npz):
    assert sentence(npz(depot=[0, 0])) == (
        "set lacks customers, demand, capacity; give depot, customers, demand and capacity."
    )


@pytest.mark.parametrize("field", ["demand", "capacity"])
def test_an_npz_file_of_words_gets_its_sentence(npz, field):
    words = {"demand": ["few", "some", "many"], "capacity": "much"}[field]

    assert sentence(npz(**arrays(**{field: words}))) == f"set: {field} must be numbers."
