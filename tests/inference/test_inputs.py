import io

import numpy as np
import pytest
import torch

from rl4co.envs import CVRPTWEnv
from tensordict import TensorDict

from rl4co_prompt import MultiTaskCVRPEnv, TaskGenerator
from rl4co_prompt.inference.inputs import is_single, read_instances
from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.vrplib import write_vrp

POINTS = [[0.5, 0.5], [0.25, 1.0], [0.1, 0.0], [0.7, 0.3]]
DEMAND = [4, 5, 6]
CAPACITY = 10
EXPECTED = Instance(POINTS, DEMAND, CAPACITY)


def arrays(**changes):
    fields = {
        "depot": POINTS[0],
        "customers": POINTS[1:],
        "demand": DEMAND,
        "capacity": CAPACITY,
    }
    return {**fields, **changes}


def batch(**changes):
    """Two instances, the second with other demands."""
    fields = {
        "depot": np.array([POINTS[0]] * 2),
        "customers": np.array([POINTS[1:]] * 2),
        "demand": np.array([DEMAND, [1, 2, 3]]),
        "capacity": np.array([CAPACITY, 9]),
    }
    return {**fields, **changes}


def tensordict(**changes):
    """RL4CO's form: demands are shares of the capacity."""
    fields = {
        "depot": torch.tensor(POINTS[:1]),
        "locs": torch.tensor([POINTS[1:]]),
        "demand": torch.tensor([DEMAND]) / CAPACITY,
        "capacity": torch.tensor([[float(CAPACITY)]]),
    }
    fields = {key: value for key, value in {**fields, **changes}.items() if value is not None}
    return TensorDict(fields, batch_size=[1])


def columns(**changes):
    fields = {
        "x": [x for x, _ in POINTS],
        "y": [y for _, y in POINTS],
        "demand": [0, *DEMAND],
        "capacity": [CAPACITY] * 4,
    }
    return {key: value for key, value in {**fields, **changes}.items() if value is not None}


def table(**changes):
    return pytest.importorskip("pandas").DataFrame(columns(**changes))


def rows(fields):
    """The text of a table."""
    lines = [",".join(fields), *(",".join(map(str, row)) for row in zip(*fields.values()))]  # noqa: B905
    return "\n".join(lines) + "\n"


@pytest.fixture
def csv(tmp_path):
    """Write a .csv file."""

    def write(content):
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode())
        return path

    return write


@pytest.fixture
def npz(tmp_path):
    """Write an .npz file."""

    def write(**fields):
        path = tmp_path / "set.npz"
        np.savez(path, **fields)
        return path

    return write


def only(x, **options):
    (instance,) = read_instances(x, **options)
    return instance


def sentence(x, error=ValueError, **options):
    """What a bad input is refused with."""
    with pytest.raises(error) as raised:
        read_instances(x, **options)
    assert len(str(raised.value).splitlines()) == 1
    assert str(raised.value).endswith(".")
    return str(raised.value)


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


def test_an_npz_file_is_read(npz):
    path = npz(**batch())

    assert [x.digest for x in read_instances(path)] == [x.digest for x in read_instances(batch())]
    assert [x.name for x in read_instances(path)] == ["set-0", "set-1"]


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


def test_a_pandas_table_is_read():
    assert only(table()).digest == EXPECTED.digest
    assert only(table(capacity=None), capacity=CAPACITY).digest == EXPECTED.digest
    assert only(table(name=list("dabc"))).digest == EXPECTED.digest


def test_the_columns_of_a_table_may_be_in_any_order_and_case():
    shuffled = table()[["demand", "capacity", "y", "x"]]
    shuffled.columns = [" Demand", "CAPACITY", "Y ", "X"]

    assert only(shuffled).digest == EXPECTED.digest


def test_the_rows_of_a_table_count_not_their_index():
    indexed = table().set_index(table().index[::-1] * 7)

    assert only(indexed).digest == EXPECTED.digest


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float32", "float64", "object", "str"])
def test_demands_of_a_table_may_be_of_any_number_type(dtype):
    made = table()
    made["demand"] = made["demand"].astype(dtype)

    assert only(made).digest == EXPECTED.digest


def test_float32_columns_keep_the_digits_they_print_with():
    made = table(demand=[0, 0.1, 0.2, 0.3], capacity=[1] * 4).astype("float32")

    assert only(made).digest == Instance(POINTS, [0.1, 0.2, 0.3], 1).digest


@pytest.mark.parametrize("nothing", [None, "", float("nan"), 0.0, -0.0, "0.00", "0e0"])
def test_the_depots_demand_may_be_empty_or_any_zero(nothing):
    assert only(table(demand=[nothing, *DEMAND])).digest == EXPECTED.digest


@pytest.mark.parametrize("column", ["demand", "capacity"])
def test_an_empty_cell_of_an_integer_column_is_empty(column):
    pandas = pytest.importorskip("pandas")
    values = {"demand": [None, *DEMAND], "capacity": [CAPACITY, None, None, None]}[column]
    made = table(**{column: pandas.array(values, dtype="Int64")})

    assert only(made).digest == EXPECTED.digest


def test_a_capacity_may_stand_in_the_first_row_only():
    assert only(table(capacity=[CAPACITY, None, None, None])).digest == EXPECTED.digest


@pytest.mark.parametrize("content", ["10,,,", "10,10.0,10,10", "10, 10,10 ,10"])
def test_a_capacity_may_be_spelt_differently_from_row_to_row(csv, content):
    assert only(csv(rows(columns(capacity=content.split(","))))).digest == EXPECTED.digest


def test_a_csv_file_is_read(csv):
    assert only(csv(rows(columns()))).digest == EXPECTED.digest
    assert only(csv(rows(columns()))).name == "table"
    assert only(csv(rows(columns(capacity=None))), capacity=CAPACITY).digest == EXPECTED.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n", "\r\n"), ("x", "\ufeffx"), (",", " , "), ("\n", "\n\n"), ("0.5", '"0.5"')],
)
def test_another_spelling_of_a_csv_file_is_the_same_instance(csv, old, new):
    content = rows(columns())
    content = new + content[1:] if old == "x" else content.replace(old, new)

    assert only(csv(content)).digest == EXPECTED.digest


def test_a_table_keeps_its_own_capacity():
    try:
        found = only(table(), capacity=99)
    except ValueError:
        return  # two capacities, so an error is as good

    assert found.capacity == CAPACITY


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


def test_a_table_is_single():
    assert is_single(table())


@pytest.mark.parametrize("x", [5, None, np.zeros((3, 2)), iter([]), {1}, [5], ["a.vrp", None][1:]])
def test_something_else_is_refused_with_what_can_be_given(x):
    told = sentence(x, TypeError)

    assert told.startswith("Can't solve a ")
    assert told.endswith(
        "give a .vrp, .csv or .npz file, a folder, a table of x, y, demand, a TensorDict, or a "
        "mapping with depot, customers, demand and capacity."
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


@pytest.mark.parametrize("column", ["ready_time", "due_date", "service_time"])
def test_time_windows_are_not_ignored_in_a_table(csv, column):
    """As Solomon's instances spell them."""
    assert column in sentence(csv(rows(columns(**{column: [0, 10, 20, 30]}))))


@pytest.mark.parametrize("key", ["x", "y", "demand"])
def test_a_table_must_have_its_columns(csv, key):
    told = f"lacks the column {key}; a table has x, y, demand, and the depot in its first row."

    assert sentence(table(**{key: None})) == f"table {told}"
    assert sentence(csv(rows(columns(**{key: None})))).endswith(told)


@pytest.mark.parametrize("names", ["x,y,x,demand", "x,y,X,demand", "x, y,demand ,demand"])
def test_a_column_given_twice_is_refused(csv, names):
    pandas = pytest.importorskip("pandas")
    cells = [[0, 0, 9, 0], [1, 1, 8, 1]]
    text = "\n".join([names, *(",".join(map(str, row)) for row in cells)])

    assert "twice" in sentence(csv(text), capacity=9)
    assert "twice" in sentence(pandas.DataFrame(cells, columns=names.split(",")), capacity=9)


@pytest.mark.parametrize("capacity", [None, [10, 20, 10, 10], [""] * 4])
def test_a_table_must_state_one_capacity(csv, capacity):
    told = (
        " does not say how much a vehicle carries; give capacity=, --capacity, or a column "
        "'capacity' with one value."
    )

    assert sentence(csv(rows(columns(capacity=capacity)))).endswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "lacks the column x, y, demand; a table has x, y, demand, and the depot in its fir"),
        ("x;y;demand\n0;0;0\n", "lacks the column x, y, demand; a table has x, y, demand, and th"),
        ("x,y,demand\n", "has no rows."),
        ("x,y,demand\n0,0,0\n", "has no customers; give at least one."),
        ("x,y,demand\n0,0,5\n1,1,1\n", "the first row is the depot, so its demand must be 0."),
        ("x,y,demand\n0,0,0\n1,1\n", "every row must have 3 cells, as the first has."),
        ("x,y,demand\n0,0,0\n1,1,1,1\n", "every row must have 3 cells, as the first has."),
        ("x,y,demand\n0,0,0\na,1,1\n", "coordinates must be numbers."),
        ("x,y,demand\n0,0,0\n,1,1\n", "coordinates must be numbers."),
        ("x,y,demand\n0,0,0\n1,1,\n", "demand must be numbers."),
        ("x,y,demand\n0,0,0\n1,1,nan\n", "demand has a NaN or infinite value."),
        ("x,y,demand\n0,0,0\n1_0,1,1\n", "coordinates must be numbers."),
        ("x,y,demand\n0,0,0\n1,1,٣\n", "demand must be numbers."),
        ("x,y,demand\n0,0,0\n1,1,0x1\n", "demand must be numbers."),
        ("x,y,demand\n0,0,0\n1,1,-1\n", "customer 1 has the negative demand -1."),
        ("x,y,demand\n0,0,0\n1,1,10\n", "customer 1 demands 10, above the capacity of 9; split"),
        ("x,y,demand\n0,0,0\n" + "1" * 200_000 + ",1,1", "can't be read as a table: field larger"),
        ("x,y\0,demand\n", "is no text file."),
    ],
)
def test_a_csv_file_that_is_no_instance_gets_its_sentence(csv, content, told):
    path = csv(content)

    assert sentence(path, capacity=9).removeprefix(str(path)).lstrip(": ").startswith(told)


@pytest.mark.parametrize("cells", [["x"] * 4, [[10]] * 4, [-10] * 4])
def test_a_tables_capacity_must_be_a_number_of_goods(cells):
    assert "capacity" in sentence(table(capacity=cells))


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
