"""Texts that are no plain CVRP, and the sentence each is refused with."""

import time

import pytest

from rl4co_prompt.tasks.vrplib import parse_vrp, read_vrp
from tests.tasks.toy import TEXT, text


def refusal(changed):
    """The sentence by which a text is refused; empty if it is read."""
    try:
        parse_vrp(changed)
    except ValueError as error:
        return str(error)
    return ""


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
