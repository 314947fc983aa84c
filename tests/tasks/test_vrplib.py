"""Reading .vrp files."""

import csv
import math

import pytest

from rl4co_prompt.tasks.vrplib import parse_vrp, read_sol, read_vrp
from tests.conftest import outside
from tests.tasks.toy import TEXT, TOY, facts, text


def test_a_file_is_read_as_it_is_written():
    toy = parse_vrp(TEXT)

    assert facts(toy) == TOY
    assert toy.name == "toy"
    assert toy.reference is None
    assert toy.source == ""


@pytest.mark.parametrize(
    "changes",
    [
        [(" : ", ":")],
        [(" : ", "\t:\t")],
        [(" ", "\t")],
        [("\n", "\r\n")],
        [("\n", "\r")],
        [("\n", " \t\n")],
        [("\n", "\n\n")],
        [("\n", "\n  ")],
        [("EOF\n", "")],
        [("-1\nEOF\n", "")],
        [("1\n-1\nEOF\n", "1 -1")],
        [("_SECTION", "_SECTION :")],
        [("_SECTION", "_SECTION  ")],
        [("EOF", "EOF :")],
        [("EOF", "EOF\nCAPACITY : 3\nNODE_COORD_SECTION\n9 9 9")],
        [("TYPE : CVRP\n", "")],
        [("COMMENT : four points\n", "")],
        [("CAPACITY", "DISTANCE : 0\nSERVICE_TIME : 0.0\nCAPACITY")],
        [("CAPACITY", "EDGE_WEIGHT_FORMAT : FUNCTION\nNODE_COORD_TYPE : TWOD_COORDS\nCAPACITY")],
        [("CAPACITY", "DISPLAY_DATA_TYPE : COORD_DISPLAY\nCAPACITY")],
        [("CAPACITY : 10", "CAPACITY : 1e1")],
        [("CAPACITY : 10", "CAPACITY : +10.0")],
        [("4 0 5", "4 .0 5."), ("3 6 8", "3 +6.0 8e0")],
        [("3 6 8", "3 60e-1 0.8E+1")],
        [("2 4", "2 4.000")],
    ],
    ids=[
        "no spaces",
        "tabs around colons",
        "tabs",
        "CRLF",
        "CR",
        "spaces at the end",
        "empty lines",
        "indented",
        "no EOF",
        "no end of depots",
        "depot in one line",
        "colon after sections",
        "spaces after sections",
        "colon after EOF",
        "text after EOF",
        "no TYPE",
        "no COMMENT",
        "limits of zero",
        "words without effect",
        "display",
        "exponent",
        "decimal",
        "points without digits",
        "exponents",
        "zeros",
    ],
)
def test_another_spelling_is_the_same_instance(changes):
    assert facts(parse_vrp(text(*changes))) == TOY


def test_labels_sections_and_types_may_be_in_lower_case():
    assert facts(parse_vrp(TEXT.lower())) == TOY


def test_a_byte_order_mark_and_foreign_letters_do_no_harm(tmp_path):
    path = tmp_path / "toy.vrp"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("four", "vier\N{NO-BREAK SPACE}").encode())
    assert facts(read_vrp(path)) == TOY
    path.write_bytes(TEXT.replace("four points", "Düsseldorf").encode("latin-1"))
    assert facts(read_vrp(path)) == TOY


def test_sections_may_come_in_any_order_and_before_labels():
    head, rest = TEXT.split("NODE_COORD_SECTION\n")
    coordinates, rest = rest.split("DEMAND_SECTION\n")
    demands, depots = rest.split("DEPOT_SECTION\n")
    shuffled = (
        f"DEMAND_SECTION\n{demands}DEPOT_SECTION\n{depots.replace('EOF', '')}"
        f"{head}NODE_COORD_SECTION\n{coordinates}EOF\n"
    )

    assert facts(parse_vrp(shuffled)) == TOY


@pytest.mark.parametrize(
    ("kind", "rounding"),
    [("EUC_2D", "nearest"), ("CEIL_2D", "up"), ("FLOOR_2D", "down"), ("EXACT_2D", "none")],
)
def test_the_edge_weight_type_decides_the_rounding(kind, rounding):
    assert parse_vrp(text(("EUC_2D", kind))).rounding == rounding


def test_decimal_and_negative_coordinates_and_decimal_demands_are_kept():
    toy = parse_vrp(text(("3 6 8", "3 -6.25 1e-3"), ("\n3 5\n", "\n3 0.1\n"), ("10", "10.5")))

    assert toy.coordinates[2].tolist() == [-6.25, 0.001]
    assert toy.demand.tolist() == [4, 0.1, 6]
    assert toy.capacity == 10.5


def test_demands_belong_to_their_node_in_whatever_order_they_are_listed():
    toy = parse_vrp(text(("2 4\n3 5\n4 6", "4 6\n2 4\n3 5")))

    assert facts(toy) == TOY


def test_the_depot_need_not_be_the_first_node():
    toy = parse_vrp(text(("\n1\n-1", "\n3\n-1"), ("\n1 0\n", "\n1 5\n"), ("\n3 5\n", "\n3 0\n")))

    assert facts(toy) == ([[6, 8], [0, 0], [3, 4], [0, 5]], [5, 4, 6], 10, "nearest", None)


def test_nodes_may_be_counted_from_zero():
    zero = text(
        ("4 0 5", "3 0 5"),
        ("3 6 8", "2 6 8"),
        ("2 3 4", "1 3 4"),
        ("1 0 0", "0 0 0"),
        ("1 0\n2 4\n3 5\n4 6", "0 0\n1 4\n2 5\n3 6"),
        ("\n1\n-1", "\n0\n-1"),
    )

    assert facts(parse_vrp(zero)) == TOY


def test_customers_are_numbered_by_their_node_number_not_by_their_line():
    """A route 1, 2, 3 of a .sol file means the nodes 2, 3, 4 to everyone else."""
    toy = parse_vrp(text(("2 3 4\n3 6 8\n4 0 5", "4 0 5\n2 3 4\n3 6 8")))

    assert facts(toy) == TOY


def test_vehicles_limit_the_number_of_routes():
    assert parse_vrp(text(("CAPACITY", "VEHICLES : 3\nCAPACITY"))).max_routes == 3


@pytest.mark.parametrize(
    ("comment", "reference"),
    [
        ("(Augerat et al, No of trucks: 5, Optimal value: 784)", 784),
        ("(Uchoa et al, Best value: 27591.5)", 27591.5),
        ("Best known solution: 12", 12),
        ("best : 7.", 7),
        ("Optimal value: 1e5", 1e5),
        ("Optimal value: unknown", None),
        ("Optimal value: 0", None),
        ("Optimal value: -5", None),
        ("Optimal value: 1.2.3", None),
        ("Optimal value: ٣", None),
        ("Best value: 27,591", None),
        ("Best value: 784, found in 2003", 784),
        ("Min no of trucks: 5, Optimal value: 784", 784),
        ("Optimal value: 784 (proved)", 784),
        ("the optimal one, no of trucks: 5", None),
        ("not optimal: 3 trucks", None),
        ("not optimal: 784", None),
        ("non-optimal: 784", None),
        ("Best known: 5 trucks", None),
        ("not optimal: 3 trucks, Best value: 784", 784),
    ],
)
def test_the_best_known_cost_may_stand_in_the_comment(comment, reference):
    toy = parse_vrp(text(("four points", comment)))

    assert toy.reference == reference
    assert toy.source == ("the file's comment" if reference else "")


def test_several_comment_lines_are_joined():
    toy = parse_vrp(text(("COMMENT : four points", "COMMENT : Best known\nCOMMENT : value: 12")))

    assert facts(toy) == TOY
    assert toy.reference == 12


def test_a_file_without_a_name_is_named_as_its_file(tmp_path):
    path = tmp_path / "unnamed.vrp"
    path.write_text(text(("NAME : toy\n", "")))
    assert read_vrp(path).name == "unnamed"
    path.write_text(text(("NAME : toy\n", "NAME :\n")))
    assert read_vrp(path).name == "unnamed"


@pytest.mark.parametrize("words", ["a map of my_section", "CVRP_SECTION", "EOF", "12:30", ": :"])
@pytest.mark.parametrize("label", ["NAME", "COMMENT"])
def test_a_name_or_comment_may_be_any_words(label, words):
    old = {"NAME": "toy", "COMMENT": "four points"}[label]

    assert facts(parse_vrp(text((f"{label} : {old}", f"{label} : {words}")))) == TOY


@pytest.fixture(scope="module")
def library():
    """Every CVRPLIB instance with its solution and its row of the table."""
    folder = outside("cvrplib")
    with (folder / "best_known.csv").open() as file:
        rows = {row["instance"]: row for row in csv.DictReader(file)}
    files = sorted(path for path in folder.glob("*/*.vrp") if path.stem in rows)
    return [
        (read_vrp(path), *read_sol(path.with_suffix(".sol")), rows[path.stem]) for path in files
    ]


def test_all_outside_instances_are_read(library):
    assert len(library) == 115
    for instance, _, _, row in library:
        assert instance.name == row["instance"]
        assert instance.num_customers == int(row["customers"])
        assert instance.capacity == int(row["capacity"])
        assert instance.demand.sum() == int(row["total_demand"])
        assert instance.rounding == "nearest"


def test_outside_solutions_cost_what_they_state(library):
    for instance, cost, routes, row in library:
        xy = instance.coordinates.tolist()
        legs = [(a, b) for r in routes for a, b in zip([0, *r], [*r, 0], strict=True)]
        independent = sum(math.floor(math.dist(xy[a], xy[b]) + 0.5) for a, b in legs)

        assert instance.cost(routes) == instance.rounded_cost(routes) == independent == cost
        assert cost == instance.reference == float(row["best_known_cost"])


def test_outside_solutions_are_feasible(library):
    for instance, _, routes, _ in library:
        assert instance.violation(routes) is None


def test_outside_instances_are_read_as_the_vrplib_package_reads_them(library):
    vrplib = pytest.importorskip("vrplib")
    folder = outside("cvrplib")
    for instance, _, _, row in library:
        path = folder / row["set"] / f"{row['instance']}.vrp"
        theirs = vrplib.read_instance(path, compute_edge_weights=False)

        assert theirs["node_coord"].tolist() == instance.coordinates.tolist()
        assert theirs["demand"].tolist() == [0, *instance.demand.tolist()]
        assert theirs["capacity"] == instance.capacity
