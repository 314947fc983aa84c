"""Files, folders, arrays and TensorDicts as instances."""

import numpy as np
import pytest
import torch

from tensordict import TensorDict

from rl4co_prompt import MultiTaskCVRPEnv, TaskGenerator
from rl4co_prompt.inference.inputs import is_single, read_instances
from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.vrplib import write_vrp
from tests.inference.forms import (
    CAPACITY,
    DEMAND,
    EXPECTED,
    POINTS,
    arrays,
    batch,
    columns,
    only,
    rows,
    tensordict,
)


def test_an_instance_is_taken_as_it_is():
    assert only(EXPECTED) is EXPECTED


def test_a_vrp_file_is_read(tmp_path):
    path = write_vrp(EXPECTED, tmp_path / "a.vrp")

    assert only(path).digest == only(str(path)).digest == EXPECTED.digest


def test_a_folder_gives_its_vrp_files_by_name(tmp_path):
    for name in ("b", "a", "c"):
        write_vrp(Instance(POINTS, DEMAND, CAPACITY, name=name), tmp_path / f"{name}.vrp")
    (tmp_path / "readme.txt").write_text("no instance")
    found = read_instances(tmp_path)

    assert [x.name for x in found] == ["a", "b", "c"]
    assert {x.digest for x in found} == {EXPECTED.digest}


def test_a_folder_gives_what_its_files_give_one_by_one(tmp_path):
    write_vrp(EXPECTED, tmp_path / "A.VRP")

    assert only(tmp_path).digest == only(tmp_path / "A.VRP").digest


def test_hidden_files_of_a_folder_are_skipped(tmp_path):
    """As macOS leaves them beside every file on a foreign disk."""
    write_vrp(EXPECTED, tmp_path / "x.vrp")
    (tmp_path / "._x.vrp").write_bytes(b"\x00\x05\x16\x07")

    assert only(tmp_path).digest == EXPECTED.digest


def test_a_list_may_mix_all_forms(tmp_path, csv):
    path = write_vrp(EXPECTED, tmp_path / "a.vrp")
    mixed = [EXPECTED, path, (str(path), arrays()), tensordict(), csv(rows(columns()))]

    assert [x.digest for x in read_instances(mixed)] == [EXPECTED.digest] * 6


def test_an_empty_list_gives_nothing():
    assert read_instances([]) == []


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_arrays_may_be_of_any_kind(kind):
    made = {key: kind(value) if key != "capacity" else value for key, value in arrays().items()}

    assert only(made).digest == EXPECTED.digest


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float16", "float32", "float64"])
def test_demands_may_be_of_any_number_type(dtype):
    demand = np.array(DEMAND, dtype)

    assert only(arrays(demand=demand)).digest == EXPECTED.digest
    assert only(arrays(demand=torch.from_numpy(demand))).digest == EXPECTED.digest


def test_float32_coordinates_keep_the_digits_they_print_with():
    customers = np.array(POINTS[1:], np.float32)

    assert only(arrays(customers=customers)).digest == EXPECTED.digest
    assert only(arrays(customers=torch.tensor(customers))).digest == EXPECTED.digest
    depot = np.array(POINTS[0], np.float32)
    assert only(arrays(depot=depot, customers=customers)).digest == EXPECTED.digest


def test_tensors_may_require_gradients():
    customers = torch.tensor(POINTS[1:], dtype=torch.float64, requires_grad=True)

    assert only(arrays(customers=customers)).digest == EXPECTED.digest


@pytest.mark.parametrize("capacity", [10, 10.0, [10], [[10]], np.float32(10), torch.tensor(10)])
def test_a_capacity_may_be_a_number_or_an_array_of_one(capacity):
    assert only(arrays(capacity=capacity)).digest == EXPECTED.digest


def test_customers_may_be_called_locs():
    made = arrays()
    made["locs"] = made.pop("customers")

    assert only(made).digest == EXPECTED.digest


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"depot": POINTS[0]},
        {"depot": [POINTS[0]]},
        {"capacity": np.array([[CAPACITY], [9]])},
        {"depot": np.array([[POINTS[0]]] * 2)},
    ],
    ids=["all", "one depot", "depot in a row", "capacities in a column", "depots in a column"],
)
def test_arrays_may_hold_several_instances(changes):
    first, second = read_instances(batch(**changes))

    assert first.digest == EXPECTED.digest
    assert second.digest == Instance(POINTS, [1, 2, 3], 9).digest


def test_a_batch_of_one_is_the_same_instance_as_without_an_axis():
    one = {key: value[:1] for key, value in batch().items()}

    assert only(one).digest == EXPECTED.digest


def test_instances_of_a_batch_are_numbered():
    assert [x.name for x in read_instances(batch())] == ["instance-0", "instance-1"]


def test_a_mapping_may_name_its_instance():
    assert only(arrays(name="depot north")).name == "depot north"


@pytest.mark.parametrize("key", ["reference", "hgs_cost"])
def test_arrays_may_carry_the_best_known_costs(key):
    assert only(arrays(**{key: 34})).reference == 34
    assert [x.reference for x in read_instances(batch(**{key: [[34], [35]]}))] == [34, 35]
    assert only(arrays(**{key: 34})).source == key


SHARES = [demand / CAPACITY for demand in DEMAND]


def test_shares_beside_a_capacity_in_a_mapping_warn():
    with pytest.warns(UserWarning, match=r"at most 1 and the capacity is 10; .* give capacity=1\."):
        found = only(arrays(demand=SHARES))

    assert found.demand.tolist() == SHARES
    assert found.capacity == CAPACITY


def test_a_batch_of_shares_warns_once():
    with pytest.warns(UserWarning, match="capacity=1") as told:
        read_instances(batch(demand=np.array([SHARES, SHARES])))

    assert len(told) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "changes",
    [
        {"demand": SHARES, "capacity": 1},
        {"demand": [1, 0, 1]},
        {"demand": [0.5, 1.5, 2]},
    ],
    ids=["of one", "whole", "above one"],
)
def test_demands_that_are_no_shares_of_the_capacity_do_not_warn(changes):
    assert only(arrays(**changes)).demand.tolist() == changes["demand"]


def test_shares_beside_a_capacity_in_a_file_warn(npz):
    told = r"set\.npz are at most 1 and the capacity is 10; they are taken as shares of it"
    with pytest.warns(UserWarning, match=told):
        found = only(npz(**arrays(demand=SHARES)))

    assert found.digest == EXPECTED.digest


@pytest.mark.filterwarnings("error")
def test_shares_of_one_in_a_file_do_not_warn(npz):
    assert only(npz(**arrays(demand=SHARES, capacity=1))).demand.tolist() == SHARES


def test_what_does_not_state_its_capacity_gets_it(npz):
    bare = {key: value for key, value in arrays().items() if key != "capacity"}
    whole = tensordict(demand=torch.tensor([DEMAND]), capacity=None)

    for x in (bare, npz(**bare), tensordict(capacity=None), whole):
        assert only(x, capacity=CAPACITY).digest == EXPECTED.digest
    assert only(arrays(), capacity=99).digest == EXPECTED.digest


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_whole_demands_of_a_tensordict_are_no_shares(dtype):
    demand = torch.tensor([DEMAND], dtype=dtype)

    assert only(tensordict(demand=demand)).digest == EXPECTED.digest
    with pytest.raises(ValueError, match="whole demands up to 6, but no capacity; add it, give"):
        only(tensordict(demand=demand, capacity=None))


def test_an_npz_file_is_read(npz):
    path = npz(**batch())

    assert [x.digest for x in read_instances(path)] == [x.digest for x in read_instances(batch())]
    assert [x.name for x in read_instances(path)] == ["set-0", "set-1"]


@pytest.mark.filterwarnings("ignore:The demands of")
def test_an_npz_file_of_shares_is_read_as_the_environment_reads_it(npz):
    """A saved TensorDict has shares of the capacity beside the capacity."""
    td = TaskGenerator("8-uniform")(3, rng=0)
    path = npz(**{key: value.numpy() for key, value in td.items()})
    shares = MultiTaskCVRPEnv.load_data(path)["demand"].numpy()
    found = read_instances(path)

    assert np.stack([x.demand / x.capacity for x in found]) == pytest.approx(shares, abs=1e-6)


def test_a_tensordict_is_read_before_and_after_a_reset():
    td = tensordict()
    env = MultiTaskCVRPEnv(seed=0)

    assert only(td).digest == EXPECTED.digest
    after = only(env.reset(td))
    assert after.coordinates.tolist() == EXPECTED.coordinates.tolist()
    assert (after.demand / after.capacity).tolist() == pytest.approx([0.4, 0.5, 0.6], abs=1e-12)


@pytest.mark.parametrize("capacity", [3, 20, 50, 63, 70, 100, 997])
def test_whole_demands_are_found_behind_the_shares_of_a_reset_tensordict(capacity):
    whole = torch.arange(1, min(capacity, 13))
    td = TensorDict(
        {
            "depot": torch.rand(1, 2),
            "locs": torch.rand(1, len(whole), 2),
            "demand": (whole / capacity)[None],
        },
        batch_size=[1],
    )
    found = only(MultiTaskCVRPEnv(seed=0).reset(td))

    assert (found.demand * capacity / found.capacity).tolist() == pytest.approx(whole.tolist())
    assert found.whole[1] <= 997


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_tensordict_may_have_any_batch_shape(shape):
    td = tensordict().view(*shape) if shape else tensordict()[0]

    assert only(td).digest == EXPECTED.digest


def test_a_tensordict_of_several_gives_them_in_order():
    td = TaskGenerator("5-uniform")(3, rng=0)
    found = read_instances(td)

    assert [x.name for x in found] == ["instance-0", "instance-1", "instance-2"]
    for i, instance in enumerate(found):
        expected = [*td["depot"][i : i + 1].tolist(), *td["locs"][i].tolist()]
        assert instance.coordinates == pytest.approx(np.array(expected), abs=1e-7)
        assert instance.demand == pytest.approx((td["demand"][i] * td["capacity"][i]).numpy())


def test_shares_with_no_whole_demands_behind_them_stay_shares():
    torch.manual_seed(0)
    shares = torch.rand(1, 20)
    td = tensordict(demand=shares, locs=torch.rand(1, 20, 2), capacity=None)
    found = only(td)

    assert found.capacity == 1
    assert found.demand == pytest.approx(shares[0].numpy(), abs=1e-7)


def test_small_shares_are_not_rounded_to_nothing():
    small = only(tensordict(demand=torch.full((1, 3), 5e-5), capacity=None))

    assert small.demand / small.capacity == pytest.approx(np.full(3, 5e-5), rel=1e-3)


def test_decimal_demands_behind_shares_of_a_large_capacity_are_not_rounded_away():
    """float32 knows 3.25 of 100 000 to 0.006."""
    demand = torch.tensor([[3.25, 40_000.5, 7.75]])
    found = only(tensordict(demand=demand / 1e5, capacity=torch.tensor([[1e5]])))

    assert found.demand / found.capacity * 1e5 == pytest.approx(demand[0].numpy(), abs=0.02)


def test_a_tensordict_may_carry_the_best_known_costs():
    assert only(tensordict(reference=torch.tensor([[34.0]]))).reference == 34


@pytest.mark.parametrize(
    ("x", "single"),
    [
        ("a.vrp", True),
        ("a.CSV", True),
        ("a.npz", False),
        ("folder", False),
        ([EXPECTED], False),
        (EXPECTED, True),
        (arrays(), False),
    ],
)
def test_only_one_file_table_or_instance_is_single(x, single):
    assert is_single(x) == single


def test_a_folder_named_as_a_file_is_not_single(tmp_path):
    folder = tmp_path / "x.vrp"
    write_vrp(EXPECTED, folder / "a.vrp")

    assert not is_single(folder)
    assert not is_single(str(folder))
    assert [x.digest for x in read_instances(folder)] == [EXPECTED.digest]


@pytest.mark.filterwarnings("ignore:The demands of")
@pytest.mark.parametrize(
    ("demand", "capacity", "expected"),
    [
        ([4e-4, 4e-4, 4e-4], 1, ([4e-4, 4e-4, 4e-4], 1)),
        ([5e-5, 5e-5, 0.5], 10, ([5e-5, 5e-5, 0.5], 1)),
        ([0.30005, 0.5, 0.5], 10, ([0.30005, 0.5, 0.5], 1)),
        ([0.3, 0.5, 1.0], 10, ([3, 5, 10], 10)),
        ([2.5, 3, 3], 10, ([2.5, 3, 3], 10)),
    ],
)
def test_shares_of_a_file_lose_nothing(tmp_path, demand, capacity, expected):
    np.savez(
        tmp_path / "a.npz", depot=[0, 0], customers=np.eye(3, 2), demand=demand, capacity=capacity
    )
    (found,) = read_instances(tmp_path / "a.npz")

    assert (found.demand.tolist(), found.capacity) == expected


@pytest.mark.parametrize("capacity", [np.nan, [], -1.0, [1.0, 2.0]])
def test_shares_beside_no_capacity_are_refused(tmp_path, capacity):
    np.savez(
        tmp_path / "a.npz",
        depot=[0, 0],
        customers=np.eye(3, 2),
        demand=[0.5] * 3,
        capacity=capacity,
    )
    with pytest.raises(ValueError, match="capacity"):
        read_instances(tmp_path / "a.npz")


def test_four_arrays_are_an_instance_and_four_files_are_four(tmp_path):
    arrays = ([0, 0], np.eye(3, 2), np.array([1, 2, 3]), 4)
    (found,) = read_instances(arrays)
    named = dict(zip(("depot", "customers", "demand", "capacity"), arrays, strict=True))

    assert found.digest == read_instances(named)[0].digest
    assert [i.digest for i in read_instances((found,) * 4)] == [found.digest] * 4
    assert len(read_instances((named,) * 4)) == 4
