import stat
import sys
import time

import numpy as np
import pytest

from rl4co_prompt.evaluation import solvers
from rl4co_prompt.evaluation.lkh import LKH3, find_program, problem_text, tour_routes
from rl4co_prompt.tasks.instance import Instance
from tests.evaluation.small import best_cost, small_instance

# Reads its files as strictly as LKH-3 does, fills vehicles in order of demand and writes the tour
# as LKH-3 does: the depot's copies are numbered after the last customer.
STAND_IN = """
import re, sys

assert len(sys.argv) == 2 and sys.stdin.read() == ""
with open(sys.argv[1]) as file:
    lines = file.read().splitlines()
assert lines[0] == "SPECIAL"
given = dict(re.fullmatch(r"([A-Z_]+) = (\\S+)", line).groups() for line in lines[1:])
assert len(given) == len(lines) - 1
problem, tour = given.pop("PROBLEM_FILE"), given.pop("TOUR_FILE")
assert float(given.pop("TIME_LIMIT")) > 0 and int(given.pop("SEED")) >= 0
largest, vehicles = int(given.pop("MTSP_MAX_SIZE")), int(given.pop("SALESMEN", 0))
assert given.pop("MTSP_MIN_SIZE", None) == ("0" if vehicles else None)
assert given == {"RUNS": "1", "MAX_TRIALS": "10000", "TRACE_LEVEL": "0"}, given

with open(problem) as file:
    text = file.read()
head, rest = text.split("NODE_COORD_SECTION\\n")
nodes, rest = rest.split("DEMAND_SECTION\\n")
demands, rest = rest.split("DEPOT_SECTION\\n")
assert rest == "1\\n-1\\nEOF\\n"
head = dict(re.fullmatch(r"([A-Z_]+) : (\\S+)", line).groups() for line in head.splitlines())
assert head.pop("NAME") and head.pop("TYPE") == "CVRP"
assert head.pop("EDGE_WEIGHT_TYPE") in ("EUC_2D", "CEIL_2D", "FLOOR_2D")
size, capacity = int(head.pop("DIMENSION")), int(head.pop("CAPACITY"))
assert not head and largest == size - 1
nodes = [line.split() for line in nodes.splitlines()]
assert [int(i) for i, x, y in nodes] == list(range(1, size + 1))
[float(x) + float(y) for i, x, y in nodes]
demand = {int(i): int(d) for i, d in map(str.split, demands.splitlines())}
assert list(demand) == list(range(1, size + 1)) and demand[1] == 0
assert sum(demand.values()) < 2**31

fewest = -(-sum(demand.values()) // capacity)
vehicles = vehicles or fewest
assert fewest <= vehicles < size, "CVRP: SALESMEN too small to meet demand"
routes = [[] for _ in range(vehicles)]
for node in sorted(range(2, size + 1), key=demand.get, reverse=True):
    load = lambda route: sum(demand[i] for i in route) + demand[node]
    next(route for route in routes if load(route) <= capacity).append(node)
depots = iter([1, *range(size + 1, size + vehicles)])
order = [node for route in routes for node in (next(depots), *route)]
with open(tour, "w") as file:
    print("NAME : problem.1234.tour\\nCOMMENT : Length = 1234", file=file)
    print("COMMENT : Found by LKH-3 [Keld Helsgaun] Mon Nov 16 10:54:18 2026", file=file)
    print(f"TYPE : TOUR\\nDIMENSION : {len(order)}\\nTOUR_SECTION", file=file)
    print(*order, -1, "EOF", sep="\\n", file=file)
print("PARAMETER_FILE =", sys.argv[1])
"""

LOOSE = {"seed": 1, "capacity": 30}  # first fit fills the fewest vehicles of this one


@pytest.fixture
def program(tmp_path):
    """Write a stand-in for LKH-3 in Python, and a shell script that starts it."""

    def write(code, name="LKH"):
        folder = tmp_path / "a folder"
        folder.mkdir(exist_ok=True)
        (folder / "code.py").write_text(code)
        script = folder / name
        script.write_text(f'#!/bin/sh\n"{sys.executable}" -I "{folder}/code.py" "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return script

    return write


@pytest.mark.parametrize("rounding", ["none", "nearest", "up", "down"])
@pytest.mark.parametrize("extra", [False, True])
def test_files_are_as_lkh_3_wants_them_and_its_tour_becomes_routes(program, rounding, extra):
    instance = small_instance(9, rounding=rounding, **LOOSE)
    routes = LKH3(program(STAND_IN), 0.5, extra_vehicles=extra).solve(instance)

    assert instance.violation(routes) is None
    assert all(routes)


def program_or_skip():
    try:
        find_program()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_the_real_program_finds_the_optimum():
    program_or_skip()
    solver = LKH3(seconds=0.1, extra_vehicles=True)
    for rounding in ("none", "nearest", "up", "down"):
        instance = small_instance(6, rounding=rounding, **LOOSE)
        found = instance.cost(solver.solve(instance))
        assert found == pytest.approx(best_cost(instance), rel=1e-9)


def test_the_real_program_solves_for_a_single_vehicle():
    program_or_skip()
    instance = small_instance(6, capacity=100)

    assert instance.cost(LKH3(seconds=0.1).solve(instance)) == best_cost(instance)


def test_unrounded_coordinates_become_integers_of_a_fine_grid():
    instance = Instance(np.array([[-0.5, 0], [0.5, 0.25], [0, 0.000_01]]), [1, 1], 2)
    lines = problem_text(instance).splitlines()

    assert "EDGE_WEIGHT_TYPE : EUC_2D" in lines
    assert lines[6:9] == ["1 0 0", "2 100000 25000", "3 50000 1"]


@pytest.mark.parametrize(
    ("rounding", "kind"), [("nearest", "EUC_2D"), ("up", "CEIL_2D"), ("down", "FLOOR_2D")]
)
def test_rounded_instances_keep_their_coordinates(rounding, kind):
    instance = Instance(np.array([[30, 40], [-1.5, 2], [7, 8]]), [1, 1], 2, rounding=rounding)
    lines = problem_text(instance).splitlines()

    assert f"EDGE_WEIGHT_TYPE : {kind}" in lines
    assert lines[6:9] == ["1 30 40", "2 -1.5 2", "3 7 8"]


def test_decimal_demands_become_integers():
    lines = problem_text(Instance(np.eye(4)[:, :2], [0.5, 1.5, 1], 2.25)).splitlines()

    assert "CAPACITY : 4" in lines
    assert lines[-9:-4] == ["DEMAND_SECTION", "1 0", "2 1", "3 3", "4 2"]


def test_a_tour_may_begin_anywhere_and_visit_the_depot_in_a_row():
    text = "DIMENSION : 8\nTOUR_SECTION\n3\n7\n8\n4\n5\n1\n6\n2\n-1\nEOF\n"

    assert tour_routes(text, 6) == [[3, 4], [5, 1, 2]]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no TOUR_SECTION"),
        ("TOUR_SECTION\n1\n2\n", "breaks off"),
        ("TOUR_SECTION\n1\ntwo\n-1\n", "'two' instead of a node"),
        ("TOUR_SECTION\n0\n1\n-1\n", "'0' instead of a node"),
        ("TOUR_SECTION\n2\n3\n-1\n", "not visit the depot"),
    ],
)
def test_an_unreadable_tour_says_why(text, what):
    with pytest.raises(ValueError, match=what):
        tour_routes(text, 3)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("raise SystemExit('*** Error ***\\nout of luck')", "failed with code 1: out of luck"),
        ("import os; os.abort()", r"failed with code \d+: "),
        ("print('no luck')", r"found no feasible tour .* or extra_vehicles \(no luck\)"),
        ("open('best.tour', 'w').write('?')", r"tour can't be read: it has no TOUR_SECTION"),
        ("open('best.tour', 'wb').write(bytes(range(256)))", "tour can't be read"),
        (
            "open('best.tour', 'w').write('TOUR_SECTION\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n-1\\n')",
            r"the routes of lkh3 are wrong: route 1 carries \d+ of 9",
        ),
    ],
    ids=["error", "crash", "no tour", "garbage", "binary", "infeasible"],
)
def test_what_goes_wrong_is_told_in_one_sentence(program, code, what):
    instance = small_instance(6, capacity=9)

    with pytest.raises(RuntimeError, match=rf"^small-6-0: .*{what}.*\.$"):
        LKH3(program(code), 0.1).solve(instance)


def test_a_program_that_hangs_is_ended(program, monkeypatch):
    monkeypatch.setattr(solvers, "MARGIN", 0.5)
    begin = time.perf_counter()

    with pytest.raises(RuntimeError, match="small-10-0: LKH-3 did not end within its limit"):
        LKH3(program("import time; time.sleep(120)"), 0.05).solve(small_instance())
    assert time.perf_counter() - begin < 60


def test_the_tour_of_a_program_that_hangs_counts(program, monkeypatch, limit_begins_with, tmp_path):
    monkeypatch.setattr(solvers, "MARGIN", 0.0)
    limit_begins_with(tmp_path / "written")
    instance = small_instance(9, **LOOSE)
    hang = f"open({str(tmp_path / 'written')!r}, 'w').close(); import time; time.sleep(120)"
    script = program(f"{STAND_IN}\n{hang}")

    assert instance.violation(LKH3(script, 0.05).solve(instance)) is None


def test_a_program_that_can_not_be_run_is_named(tmp_path):
    script = tmp_path / "LKH"
    script.write_bytes(b"\x7fELF and nothing else")
    script.chmod(0o755)

    with pytest.raises(RuntimeError, match=r"small-10-0: .*LKH can't be run"):
        LKH3(script).solve(small_instance())


def test_the_program_is_found_by_argument_then_variable_then_path(program, monkeypatch):
    on_path = program("", "LKH-3")
    variable, argument = program("", "by variable"), program("", "by argument")
    monkeypatch.delenv("LKH3_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_program() == str(on_path)

    monkeypatch.setenv("LKH3_BINARY", str(variable))
    assert find_program() == str(variable)
    assert find_program(argument) == str(argument)


def test_a_missing_program_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("LKH3_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FileNotFoundError, match=r"on the PATH; .* set LKH3_BINARY"):
        LKH3().solve(small_instance())
    with pytest.raises(FileNotFoundError, match="No LKH-3 program at nowhere/LKH"):
        LKH3("nowhere/LKH").solve(small_instance())
