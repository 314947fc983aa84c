"""Tables of x, y, demand: pandas, and .csv files."""

import pytest

from rl4co_prompt.inference.inputs import is_single
from rl4co_prompt.tasks.instance import Instance
from tests.inference.forms import (
    CAPACITY,
    DEMAND,
    EXPECTED,
    POINTS,
    columns,
    only,
    rows,
    sentence,
    table,
)


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
    assert only(table(), capacity=99).digest == EXPECTED.digest


def test_a_table_is_single():
    assert is_single(table())


@pytest.mark.parametrize(
    "column",
    [
        *("ready_time", "due_date", "service_time", "READY TIME", "Due Date", "Service Time"),
        *("tw_start", "tw_end", "TW", "time-window", "timeWindow", "earliest", "latest_arrival"),
        *("pickup", "pick-up", "backhaul", "deadline", "duration", "open_route", "distance limit"),
    ],
)
def test_constraints_are_not_ignored_in_a_table(csv, column):
    """As Solomon's instances and others spell them."""
    told = sentence(csv(rows(columns(**{column: [0, 10, 20, 30]}))))

    reason = "which is not part of a plain CVRP; delete it if it is no constraint."
    assert told.endswith(f"has {column.lower()}, {reason}")


@pytest.mark.parametrize("column", ["id", "name", "city", "timestamp", "network", "residue", "zip"])
def test_other_columns_are_ignored(csv, column):
    assert only(csv(rows(columns(**{column: [0, 10, 20, 30]})))).digest == EXPECTED.digest


@pytest.mark.parametrize("separator", [";", "\t", " ; "])
def test_cells_may_be_set_apart_otherwise(csv, separator):
    assert only(csv(rows(columns()).replace(",", separator))).digest == EXPECTED.digest


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_file_without_a_header_is_told(csv, separator):
    content = rows(columns()).split("\n", 1)[1].replace(",", separator)

    assert sentence(csv(content)).endswith(
        "has no header; its first line must name x, y and demand."
    )


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
        ("x y demand\n0 0 0\n", "lacks the column x, y, demand; a table has x, y, demand, and th"),
        ("x;y;demand\n0;0;0\n1,5;1;1\n", "coordinates must be numbers."),
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
