import csv
import math
import os
import time

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.vrplib import parse_vrp, read_sol, read_vrp, write_sol, write_vrp
from tests.conftest import outside

TEXT = """NAME : toy
COMMENT : four points
TYPE : CVRP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
1 0 0
2 3 4
3 6 8
4 0 5
DEMAND_SECTION
1 0
2 4
3 5
4 6
DEPOT_SECTION
1
-1
EOF
"""


def text(*changes):
    """The toy file with parts of it replaced."""
    changed = TEXT
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new)
    return changed


def facts(instance):
    """What decides the problem."""
    return (
        instance.coordinates.tolist(),
        instance.demand.tolist(),
        instance.capacity,
        instance.rounding,
        instance.max_routes,
    )


def refusal(changed):
    """The sentence by which a text is refused; empty if it is read."""
    try:
        parse_vrp(changed)
    except ValueError as error:
        return str(error)
    return ""


TOY = ([[0, 0], [3, 4], [6, 8], [0, 5]], [4, 5, 6], 10, "nearest", None)


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
        ("the optimal one, no of trucks: 5", None),
    ],
)
def test_the_best_known_cost_may_stand_in_the_comment(comment, reference):
    toy = parse_vrp(text(("four points", comment)))

    assert toy.reference == reference
    assert toy.source == ("the file's comment" if reference else "")


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


REFUSED = [
    ([(TEXT, "")], "X is not a CVRP file: it lacks NODE_COORD_SECTION, DEMAND_SECTION, "),
    ([("DEPOT_SECTION\n1\n-1\n", "")], "X is not a CVRP file: it lacks DEPOT_SECTION."),
    ([("DEMAND_SECTION\n", "DEMAND_SECTION\nEOF\n")], "X is not a CVRP file: it lacks DEPOT_SECT"),
    ([("DIMENSION : 4\n", "")], "X lacks DIMENSION."),
    ([("CAPACITY : 10\n", "")], "X lacks CAPACITY."),
    ([("EDGE_WEIGHT_TYPE : EUC_2D\n", "")], "X lacks EDGE_WEIGHT_TYPE."),
    ([("CAPACITY : 10", "CAPACITY : 10\nCapacity : 10")], "X states CAPACITY twice."),
    ([("DEPOT_S", "DEMAND_SECTION\nDEPOT_S")], "X has two DEMAND_SECTIONs."),
    ([("TYPE : CVRP", "TYPE : VRPTW")], "X is of TYPE VRPTW; only CVRP is solved."),
    ([("TYPE : CVRP", "TYPE :")], "X is of TYPE ; only CVRP is solved."),
    ([("EUC_2D", "EXPLICIT")], "X: EDGE_WEIGHT_TYPE EXPLICIT is not supported; the model needs"),
    ([("EUC_2D", "GEO")], "X: EDGE_WEIGHT_TYPE GEO is not supported; the model needs points in"),
    ([("CAPACITY", "DISTANCE : 200\nCAPACITY")], "X states DISTANCE, which is not part of a pla"),
    ([("CAPACITY", "DISTANCE : 1e-9\nCAPACITY")], "X states DISTANCE, which is not part of a pl"),
    ([("CAPACITY", "DISTANCE : x\nCAPACITY")], "X states DISTANCE, which is not part of a plain"),
    ([("CAPACITY", "SERVICE_TIME : 5\nCAPACITY")], "X states SERVICE_TIME, which is not part of"),
    ([("CAPACITY", "OPEN : yes\nCAPACITY")], "X states OPEN, which is not part of a plain CVRP;"),
    ([("EOF", "TIME_WINDOW_SECTION\n1 0 9\nEOF")], "X: TIME_WINDOW_SECTION is not part of a pla"),
    ([("EOF", "EDGE_WEIGHT_SECTION\n0 1\nEOF")], "X: EDGE_WEIGHT_SECTION is not part of a plain"),
    ([("CAPACITY : 10", "CAPACITY 10")], "X: line 6 can't be read: 'CAPACITY 10'."),
    ([("NAME", "hello\nNAME")], "X: line 1 can't be read: 'hello'."),
    ([("DIMENSION : 4", "DIMENSION : 5")], "X: DIMENSION is 5, but 4 nodes have coordinates and"),
    (
        [("\n4 6", "")],
        "X: DIMENSION is 4, but 4 nodes have coordinates and 3 a demand; the section",
    ),
    (
        [("\n4 6", "\n5 6")],
        "X: DIMENSION is 4, but 4 nodes have coordinates and 4 a demand; the se",
    ),
    ([("DIMENSION : 4", "DIMENSION : 4.5")], "X: DIMENSION holds '4.5', which is no count."),
    ([("DIMENSION : 4", "DIMENSION : -4")], "X: DIMENSION holds '-4', which is no count."),
    ([("DIMENSION : 4", "DIMENSION : four")], "X: DIMENSION holds 'four', which is no number."),
    ([("CAPACITY", "VEHICLES : 2.5\nCAPACITY")], "X: VEHICLES holds '2.5', which is no count."),
    ([("2 3 4", "2 3")], "X: a line of NODE_COORD_SECTION has 2 numbers instead of 3: '2 3'."),
    ([("2 3 4", "2 3 4 5")], "X: a line of NODE_COORD_SECTION has 4 numbers instead of 3: '2 3 "),
    ([("\n2 4", "\n2 4 7")], "X: a line of DEMAND_SECTION has 3 numbers instead of 2: '2 4 7'."),
    ([("2 3 4", "1 3 4")], "X: NODE_COORD_SECTION lists node 1 twice."),
    ([("2 3 4", "1.0 3 4")], "X: NODE_COORD_SECTION lists node 1 twice."),
    ([("\n2 4", "\n1 4")], "X: DEMAND_SECTION lists node 1 twice."),
    ([("2 3 4", "-2 3 4")], "X: NODE_COORD_SECTION holds '-2', which is no count."),
    ([("2 3 4", "a 3 4")], "X: NODE_COORD_SECTION holds 'a', which is no number."),
    ([("\n1\n-1", "\n-1")], "X: DEPOT_SECTION must name one depot, got 0."),
    ([("\n1\n-1", "\n1\n2\n-1")], "X: DEPOT_SECTION must name one depot, got 2."),
    ([("\n1\n-1", "\n0 0\n-1")], "X: DEPOT_SECTION must name one depot, got 2."),
    ([("\n1\n-1", "\n9\n-1")], "X: the depot, node 9, has no coordinates."),
    ([("\n1\n-1", "\nfirst\n-1")], "X: DEPOT_SECTION holds 'first', which is no number."),
    ([("\n1 0\n", "\n1 3\n")], "X: the depot, node 1, has a demand."),
    ([("\n2 4", "\n2 -4")], "X: customer 1 has the negative demand -4."),
    ([("\n2 4", "\n2 11")], "X: customer 1 demands 11, above the capacity of 10; split it."),
    ([("CAPACITY : 10", "CAPACITY : 0")], "X: the capacity must be between 0 and 1e+12: 0."),
    ([("CAPACITY : 10", "CAPACITY : -9")], "X: the capacity must be between 0 and 1e+12: -9."),
    ([("CAPACITY : 10", "CAPACITY : 1e13")], "X: the capacity must be between 0 and 1e+12: 1e+13"),
    ([("CAPACITY : 10", "CAPACITY :")], "X: CAPACITY holds '', which is no number."),
    ([("CAPACITY : 10", "CAPACITY : 10 kg")], "X: CAPACITY holds '10 kg', which is no number."),
    ([("2 3 4", "2 3 1e99")], "X: a coordinate is beyond 1e+12; use a larger unit."),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=[s[:60] for _, s in REFUSED])
def test_what_is_no_plain_cvrp_is_refused_with_its_sentence(changes, sentence):
    with pytest.raises(ValueError, match=r".") as raised:
        parse_vrp(text(*changes), "X")

    # Quotes around what a file says are a matter of taste.
    assert str(raised.value).replace("'", "").startswith(sentence.replace("'", ""))
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize(
    "word",
    [
        "nan",
        "inf",
        "-inf",
        "1_000",
        "٣",
        "\uff13",
        "0x10",
        "1,5",
        "1e400",
        "--1",
        "1-1",
        "1e",
        ".",
        "½",
    ],
)
@pytest.mark.parametrize("place", ["2 {} 4", "\n2 {}\n", "CAPACITY : {}", "DIMENSION : {}"])
def test_what_only_looks_like_a_number_is_refused(place, word):
    old = {"2 {} 4": "2 3 4", "\n2 {}\n": "\n2 4\n"}.get(place)
    if old is None:
        old = place.format({"C": 10, "D": 4}[place[0]])

    with pytest.raises(ValueError, match="which is no number"):
        parse_vrp(text((old, place.format(word))))


def test_vehicles_of_zero_are_refused():
    with pytest.raises(ValueError, match=r"VEHICLES|max_routes"):
        parse_vrp(text(("CAPACITY", "VEHICLES : 0\nCAPACITY")))


@pytest.mark.parametrize("more", ["2\n-1\n", "2\n", "5 7\n"])
def test_a_depot_after_the_end_of_the_list_is_refused(more):
    with pytest.raises(ValueError, match="DEPOT_SECTION"):
        parse_vrp(text(("-1\n", f"-1\n{more}")))


def test_node_numbers_beyond_a_floats_precision_are_not_taken_for_each_other():
    far = text(("\n4 0 5", "\n9007199254740993 0 5"), ("\n4 6", "\n9007199254740992 6"))

    with pytest.raises(ValueError, match=r"9007199254740993|same 4 nodes"):
        parse_vrp(far)


@pytest.mark.parametrize("line", [": 5", "\x1b[31mRED : 5", "\x07 : 5"])
def test_a_label_that_does_not_show_is_quoted_in_the_sentence(line):
    with pytest.raises(ValueError, match="not part of a plain CVRP") as raised:
        parse_vrp(text(("CAPACITY", f"{line}\nCAPACITY")), "X")

    label = repr(line.split(":")[0].strip())
    assert label.upper()[:8] in str(raised.value).upper()
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "hostile",
    [
        "1 " * 2_000_000,
        "9" * 4_000_000,
        "NAME : " + "x" * 4_000_000,
        "COMMENT : " + "best " * 800_000,
        "COMMENT : best" + " " * 4_000_000 + "x",
        "A" * 4_000_000 + " : 5",
        ":" * 4_000_000,
        "_SECTION" * 500_000,
    ],
    ids=["words", "digits", "name", "comment", "spaces", "label", "colons", "sections"],
)
def test_a_line_of_megabytes_is_read_or_refused_in_no_time(hostile):
    begin = time.perf_counter()
    for place in ("TYPE : CVRP\n", "DEMAND_SECTION\n"):
        changed = text((place, f"{place}{hostile}\n"), ("NAME : toy\nCOMMENT : four points\n", ""))
        assert len(refusal(changed)) < 300

    assert time.perf_counter() - begin < 5


def test_a_binary_file_is_refused(tmp_path):
    path = tmp_path / "x.vrp"
    path.write_bytes(TEXT.encode("utf-16"))

    with pytest.raises(ValueError, match=r"x\.vrp is no text file\."):
        read_vrp(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file at .*none\.vrp\."):
        read_vrp(tmp_path / "none.vrp")


def test_an_error_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "bad.vrp"
    path.write_text(text(("\n2 4", "\n2 11")))

    with pytest.raises(ValueError, match=r"bad\.vrp: "):
        read_vrp(path)


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.vrp"
    path.write_text(text(("four points", "Optimal value: 40")))
    return path


def test_the_solution_beside_gives_the_reference(toy):
    toy.with_suffix(".sol").write_text("Route #1: 1 2\nRoute #2: 3\nCost 30\n")
    instance = read_vrp(toy)

    assert instance.reference == 30
    assert instance.source == "toy.sol"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"Route #1: 1 2\n",
        b"Route #1: 1 2\nCost many\n",
        b"Route #1: 1 2\nCost nan\n",
        b"Route #1: 1 2\nCost inf\n",
        b"Route #1: 1 2\nCost 0\n",
        b"Route #1: 1 2\nCost -5\n",
        b"Route #1: 1 2\nCost 1e999\n",
        b"Route #1: one two\nCost 30\n",
        b"Route #1: 1_0\nCost 30\n",
        b"\x00\x01",
    ],
)
def test_a_broken_solution_beside_is_a_warning_and_gives_no_reference(toy, broken):
    toy.write_text(TEXT)
    toy.with_suffix(".sol").write_bytes(broken)
    with pytest.warns(UserWarning, match=r"toy\.sol"):
        instance = read_vrp(toy)

    assert instance.reference is None
    assert instance.source == ""


def test_a_broken_solution_beside_leaves_the_comments_reference(toy):
    toy.with_suffix(".sol").write_text("nothing")
    with pytest.warns(UserWarning, match=r"toy\.sol"):
        instance = read_vrp(toy)

    assert instance.reference == 40
    assert instance.source == "the file's comment"


@pytest.mark.parametrize(
    "content",
    [
        "Route #1: 1 2\nRoute #2: 3\nCost 30\n",
        "route #1:1 2\r\nroute #2:3\r\ncost: 30\r\n",
        "\ufeffCost 30.0\nRoute 1 : 1\t2\nRoute 2: 3",
        "Solution\n\n  Route #1: 1 2\n  Route #2: 3\n  Cost : 3e1\nTime 12\n",
    ],
)
def test_a_solution_is_read_in_its_usual_spellings(tmp_path, content):
    path = tmp_path / "toy.sol"
    path.write_bytes(content.encode())

    assert read_sol(path) == (30, [[1, 2], [3]])


@pytest.mark.parametrize("word", ["x", "1.5", "1_0", "٣", "-2"])
def test_a_route_of_something_else_is_refused(tmp_path, word):
    path = tmp_path / "toy.sol"
    path.write_text(f"Route #1: 1 {word}\nCost 30\n")

    with pytest.raises(ValueError, match="a route holds something that is no customer number"):
        read_sol(path)


def test_a_solution_without_a_cost_is_refused(tmp_path):
    path = tmp_path / "toy.sol"
    path.write_text("Route #1: 1\n")

    with pytest.raises(ValueError, match=r"toy\.sol states no cost; expected a line such as 'Cost"):
        read_sol(path)


@pytest.mark.parametrize("cost", [784, 784.0, 0.1, 12345.678901234567, 1e-05, 3e20])
def test_a_written_solution_is_read_back(tmp_path, cost):
    routes = [[3, 1], [2]]
    path = write_sol(routes, cost, tmp_path / "deep" / "folder" / "x.sol")

    assert read_sol(path) == (cost, routes)


def test_a_written_solution_looks_as_cvrplib_writes_it(tmp_path):
    path = write_sol(((3, np.int64(1)), (2,)), 784.0, tmp_path / "x.sol")

    assert path.read_text() == "Route #1: 3 1\nRoute #2: 2\nCost 784\n"


@pytest.mark.parametrize("fails", ["replace", "chmod"])
def test_nothing_is_left_behind_when_writing_fails(tmp_path, monkeypatch, fails):
    path = tmp_path / "x.sol"
    path.write_text("before")

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="disk full"):
        write_sol([[1]], 1.0, path)

    assert [file.name for file in tmp_path.iterdir()] == ["x.sol"]
    assert path.read_text() == "before"


def test_a_name_that_is_no_text_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="surrogates"):
        write_vrp(Instance([[0, 0], [1, 1]], [1], 1, name="\ud800"), tmp_path / "x.vrp")

    assert list(tmp_path.iterdir()) == []


COORDINATE = st.one_of(
    st.integers(-1000, 1000),
    st.floats(0, 1),
    st.floats(-1e12, 1e12),
    st.sampled_from([0.0009615505794944301, 1e-300, -0.0, 1e12, 5e-324, 0.1]),
)
AMOUNT = st.one_of(st.integers(1, 10**6), st.sampled_from([0.1, 1.25, 1e12, 1e-7, 123456.789]))


@st.composite
def instances(draw):
    size = draw(st.integers(1, 5))
    capacity = draw(AMOUNT)
    pairs = st.lists(st.tuples(COORDINATE, COORDINATE), min_size=size + 1, max_size=size + 1)
    parts = st.sampled_from([0, 1, 0.5, 0.125, 0.1, 1 / 3])
    return Instance(
        coordinates=draw(pairs),
        demand=[draw(parts) * capacity for _ in range(size)],
        capacity=capacity,
        name=draw(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)),
        rounding=draw(st.sampled_from(["none", "nearest", "up", "down"])),
        reference=draw(st.none() | st.floats(1e-9, 1e18) | st.integers(1, 10**9)),
        max_routes=draw(st.none() | st.integers(1, 50)),
    )


@settings(max_examples=400, deadline=None, derandomize=True)
@given(instance=instances())
def test_what_is_written_is_read_back(tmp_path_factory, instance):
    path = tmp_path_factory.getbasetemp() / "again.vrp"
    again = read_vrp(write_vrp(instance, path))

    assert again.digest == instance.digest
    assert facts(again) == facts(instance)
    assert again.name == (" ".join(instance.name.split()) or "again")
    assert again.reference == instance.reference


@pytest.mark.parametrize("seed", range(5))
def test_random_points_of_the_unit_square_are_read_back(tmp_path, seed):
    """Close to 0 they have twenty decimals."""
    rng = np.random.default_rng(seed)
    instance = Instance(rng.random((101, 2)), rng.integers(1, 10, 100), 50)

    assert read_vrp(write_vrp(instance, tmp_path / "x.vrp")).digest == instance.digest


def test_a_written_file_is_read_alike_by_the_vrplib_package(tmp_path):
    vrplib = pytest.importorskip("vrplib")
    rng = np.random.default_rng(0)
    for rounding, kind in (("nearest", "EUC_2D"), ("none", "EXACT_2D")):
        points = rng.integers(0, 1000, (9, 2)) / (1 if rounding == "nearest" else 8)
        instance = Instance(points, rng.integers(1, 9, 8), 20, rounding=rounding, max_routes=4)
        path = write_vrp(instance, tmp_path / f"{rounding}.vrp")
        theirs = vrplib.read_instance(path, compute_edge_weights=False)

        assert theirs["node_coord"].tolist() == instance.coordinates.tolist()
        assert theirs["demand"].tolist() == [0, *instance.demand.tolist()]
        assert theirs["capacity"] == 20
        assert theirs["vehicles"] == 4
        assert theirs["depot"].tolist() == [0]
        assert theirs["edge_weight_type"] == kind


def test_a_written_solution_is_read_alike_by_the_vrplib_package(tmp_path):
    vrplib = pytest.importorskip("vrplib")
    path = write_sol([[3, 1], [2]], 784.0, tmp_path / "x.sol")
    theirs = vrplib.read_solution(path)

    assert theirs["routes"] == [[3, 1], [2]]
    assert theirs["cost"] == 784


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
