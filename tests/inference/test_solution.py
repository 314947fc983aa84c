import matplotlib
import numpy as np
import pytest

from rl4co_prompt import Instance, Solution
from rl4co_prompt.inference.solution import Attempt
from rl4co_prompt.tasks.vrplib import read_sol

matplotlib.use("Agg")

SQUARE = Instance(
    np.array([[0, 0], [0, 3], [4, 3], [4, 0]]), np.array([1, 1, 1]), 3, name="square",
    rounding="nearest", reference=14, source="by hand",
)  # fmt: skip


def solution(routes=((1, 2, 3),), instance=SQUARE):
    attempt = Attempt(rank=0, copy=3, prompt=2, cost=14, seconds=0.25, rollouts=3)
    return Solution(instance, routes, attempt, (attempt, attempt))


def test_cost_gap_and_origin_are_told():
    found = solution()

    assert (found.cost, found.exact_cost, found.rounded_cost) == (14, 14.0, 14)
    assert found.gap == 0
    assert (found.prompt, found.copy, found.method) == (2, 3, "greedy")
    assert (found.seconds, found.rollouts) == (0.5, 6)
    assert found.title() == "square: 14 (+0.00%), 1 route"


@pytest.mark.parametrize("routes", [((1, 2),), ((1, 2, 3), (3,)), ((1, 2, 3, 4),), ()])
def test_wrong_routes_never_become_a_solution(routes):
    with pytest.raises(RuntimeError, match="do not visit each of the customers 1 to 3 once"):
        solution(routes)


def test_overloaded_routes_never_become_a_solution():
    small = Instance(SQUARE.coordinates, SQUARE.demand, 2)
    with pytest.raises(RuntimeError, match="route 1 carries 3 of 2"):
        solution(instance=small)


def test_a_fleet_limit_is_reported():
    limited = Instance(SQUARE.coordinates, SQUARE.demand, 3, max_routes=1)

    assert solution(instance=limited).within_fleet
    assert not solution(((1,), (2, 3)), limited).within_fleet


def test_write_makes_a_sol_file_that_reads_back(tmp_path):
    path = solution(((1, 2), (3,))).write(tmp_path / "new" / "square.sol")

    assert read_sol(path) == (20, [[1, 2], [3]])
    assert path.read_text() == "Route #1: 1 2\nRoute #2: 3\nCost 20\n"
    with pytest.raises(ValueError, match=r"must end in \.sol"):
        solution().write(tmp_path / "square.txt")


def test_plot_draws_every_route_on_the_given_axes():
    _, ax = matplotlib.pyplot.subplots()
    found = solution(((1, 2), (3,)))

    assert found.plot(ax) is ax
    assert len(ax.lines) == 2
    assert ax.lines[0].get_xydata().tolist() == [[0, 0], [0, 3], [4, 3], [0, 0]]
    assert found.plot().get_title() == found.title()
    matplotlib.pyplot.close("all")


def test_as_dict_holds_plain_values():
    import json

    record = json.loads(json.dumps(solution().as_dict()))

    assert record["routes"] == [[1, 2, 3]]
    assert (record["cost"], record["gap"], record["reference_source"]) == (14, 0.0, "by hand")
