"""Instance: its fields, what routes cost, and what names it."""

import math

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from rl4co_prompt import MultiTaskCVRPEnv
from rl4co_prompt.tasks.instance import Instance, as_tensordict


def instance(**changes):
    fields = {
        "coordinates": [[0, 0], [3, 4], [6, 8], [0, 7]],
        "demand": [2, 3, 4],
        "capacity": 6,
        "name": "small",
    }
    return Instance(**{**fields, **changes})


def closed(route, points):
    """Lengths of a route's edges, from the depot and back."""
    nodes = [points[i] for i in (0, *route, 0)]
    return [math.dist(a, b) for a, b in pairwise(nodes)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rounding": "half"},
            "Unknown rounding 'half'; use one of none, nearest, up, down.",
        ),
        ({"demand": [1, 2, "x"]}, "small: demand must be numbers."),
        ({"coordinates": [["a", 0]] * 4}, "small: coordinates must be numbers."),
        ({"capacity": "much"}, "small: capacity must be numbers."),
        ({"capacity": None}, "small: capacity has a NaN or infinite value."),
        ({"demand": [1, 2, math.nan]}, "small: demand has a NaN or infinite value."),
        ({"capacity": math.inf}, "small: capacity has a NaN or infinite value."),
        (
            {"coordinates": [[0, 0], [1, math.inf], [0, 1], [1, 1]]},
            "small: coordinates has a NaN or infinite value.",
        ),
        (
            {"demand": [1, 2]},
            "small: coordinates must be [n + 1, 2], depot first, and demand [n]; got [4, 2] and "
            "[2].",
        ),
        (
            {"coordinates": [[0, 0, 0]] * 4},
            "small: coordinates must be [n + 1, 2], depot first, and demand [n]; got [4, 3] and "
            "[3].",
        ),
        (
            {"demand": [[1, 2, 3]]},
            "small: coordinates must be [n + 1, 2], depot first, and demand [n]; got [4, 2] and "
            "[1, 3].",
        ),
        (
            {"coordinates": [[0, 0]], "demand": []},
            "small has no customers; give at least one.",
        ),
        (
            {"coordinates": [[0, 0], [1, 1], [2, 2], [0, -1.1e12]]},
            "small: a coordinate is beyond 1e+12; use a larger unit.",
        ),
        ({"capacity": 0}, "small: the capacity must be between 0 and 1e+12: 0."),
        ({"capacity": -6}, "small: the capacity must be between 0 and 1e+12: -6."),
        ({"capacity": 2e12}, "small: the capacity must be between 0 and 1e+12: 2e+12."),
        ({"demand": [2, -3, 4]}, "small: customer 2 has the negative demand -3."),
        (
            {"demand": [2, 3, 6.5]},
            "small: customer 3 demands 6.5, above the capacity of 6; split it.",
        ),
        ({"reference": 0}, "small: reference must be a positive number, got 0."),
        ({"reference": -1.0}, "small: reference must be a positive number, got -1.0."),
        ({"reference": math.nan}, "small: reference has a NaN or infinite value."),
        ({"reference": math.inf}, "small: reference has a NaN or infinite value."),
    ],
)
def test_a_field_that_makes_no_sense_gets_its_sentence(changes, message):
    with pytest.raises(ValueError, match=r".") as raised:
        instance(**changes)

    assert str(raised.value) == message


@pytest.mark.parametrize("capacity", [[], [6, 9], [[6], [9]]])
def test_a_capacity_must_be_one_number(capacity):
    with pytest.raises(ValueError, match="capacity"):
        instance(capacity=capacity)


@pytest.mark.parametrize("count", [-1, 0, 2.5])
def test_a_fleet_must_be_a_number_of_vehicles(count):
    with pytest.raises(ValueError, match="max_routes"):
        instance(max_routes=count)


@pytest.mark.parametrize(
    "demand",
    [
        [1 + 2j, 1, 1],
        np.array(["1970-01-02"] * 3, dtype="datetime64[D]"),
        ["1_0", "1", "1"],
        ["٣", "1", "1"],
        ["0x1", "1", "1"],
    ],
    ids=["complex", "dates", "underscore", "arabic", "hexadecimal"],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_a_demand_that_only_looks_like_a_number_is_refused(demand):
    with pytest.raises(ValueError, match="demand must be numbers"):
        instance(demand=demand, capacity=20)


def test_numbers_may_come_as_lists_arrays_or_text():
    expected = instance()

    assert instance(demand=np.array([2, 3, 4], np.int8)).digest == expected.digest
    assert instance(demand=np.array([2, 3, 4], np.float16)).digest == expected.digest
    assert instance(demand=["2", "3.0", " 4 "], capacity="6").digest == expected.digest
    assert instance(demand=torch.tensor([2, 3, 4]), capacity=np.array([6])).digest == (
        expected.digest
    )


def test_changing_the_arrays_afterwards_does_not_change_the_instance():
    points, demand = np.zeros((3, 2)), np.array([1.0, 2.0])
    made = Instance(points, demand, 3)
    points += 7
    demand += 7

    assert made.coordinates.max() == 0
    assert made.demand.tolist() == [1, 2]


def test_the_exact_cost_is_the_length_of_the_closed_routes():
    rng = np.random.default_rng(0)
    points = rng.random((9, 2)) * 100
    routes = [[3, 1, 2], [8], [5, 4, 7, 6]]
    expected = sum(sum(closed(route, points)) for route in routes)

    assert Instance(points, np.ones(8), 4).exact_cost(routes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("rounding", "each"),
    [
        ("none", lambda length: math.floor(length + 0.5)),
        ("nearest", lambda length: math.floor(length + 0.5)),
        ("up", math.ceil),
        ("down", math.floor),
    ],
)
def test_the_rounded_cost_rounds_every_edge(rounding, each):
    points = np.random.default_rng(1).integers(0, 50, (9, 2))
    routes = [[3, 1, 2], [8], [5, 4, 7, 6]]
    expected = sum(each(length) for route in routes for length in closed(route, points))
    cost = Instance(points, np.ones(8), 4, rounding=rounding).rounded_cost(routes)

    assert cost == expected
    assert isinstance(cost, int)


@pytest.mark.parametrize("rounding", ["nearest", "up", "down"])
def test_an_edge_of_whole_length_is_not_rounded_away(rounding):
    """Pythagorean triples: a last bit too many would add one to the length."""
    for m in range(2, 60):
        for n in range(1, m):
            a, b, c = m * m - n * n, 2 * m * n, m * m + n * n
            there = Instance([[-a, 0], [0, b]], [1], 1, rounding=rounding)
            assert there.rounded_cost([[1]]) == 2 * c


def test_half_an_edge_is_rounded_up_as_tsplib_does():
    assert Instance([[0, 0], [0, 2.5]], [1], 1).rounded_cost([[1]]) == 6


def test_the_cost_follows_the_instances_own_rounding():
    routes, points = [[1]], [[0, 0], [1, 1]]
    costs = {
        rounding: Instance(points, [1], 1, rounding=rounding).cost(routes)
        for rounding in ("none", "nearest", "up", "down")
    }

    assert costs == {"none": pytest.approx(2 * 2**0.5), "nearest": 2, "up": 4, "down": 2}


def test_no_routes_and_empty_routes_cost_nothing():
    assert instance().exact_cost([]) == 0
    assert instance().exact_cost([[], []]) == 0


def test_several_tours_are_priced_at_once():
    tours = np.array([[0, 1, 2, 0, 3], [3, 0, 2, 1, 0]])

    assert instance().tour_costs(tours).tolist() == pytest.approx([34, 34])


@pytest.mark.parametrize("routes", [[[1, 2], [3]], [(3,), (2,), (1,)], [np.array([1, 3]), [2]]])
def test_routes_that_serve_everyone_are_no_violation(routes):
    assert instance().violation(routes) is None


@pytest.mark.parametrize(
    "routes",
    [
        [],
        [[1], [2]],
        [[1, 1], [2], [3]],
        [[1, 2], [3, 2]],
        [[0, 1], [2], [3]],
        [[1], [2], [3], [4]],
        [[1], [2], [-3]],
    ],
    ids=["none", "missing", "double", "in two", "depot", "unknown", "negative"],
)
def test_a_customer_missing_or_visited_twice_is_a_violation(routes):
    assert instance().violation(routes) == (
        "the routes do not visit each of the customers 1 to 3 once"
    )


def test_an_overloaded_route_is_a_violation():
    assert instance().violation([[1], [2, 3]]) == "route 2 carries 7 of 6"


def test_the_same_problem_has_the_same_digest():
    same = [
        instance(name="other"),
        instance(reference=34.0, source="a paper"),
        instance(demand=np.array([2, 3, 4], np.float32)),
        instance(coordinates=np.array([[0, 0], [3, 4], [6, 8], [0, 7]], np.float32)),
        instance(coordinates=np.asfortranarray([[0, 0], [3, 4], [6, 8], [0, 7]])),
        instance(coordinates=[[-0.0, 0], [3, 4], [6, 8], [0, 7]]),
        instance(demand=[2, 3, 4.0], capacity=6.0),
    ]

    assert {x.digest for x in same} == {instance().digest}


@pytest.mark.parametrize("fleet", [np.int64(2), np.uint8(2), np.float32(2), np.array([2]), "2"])
def test_a_fleet_from_numpy_is_the_plain_one(fleet):
    made = instance(max_routes=fleet)

    assert made.max_routes == 2
    assert type(made.max_routes) is int
    assert made.digest == instance(max_routes=2).digest


@pytest.mark.parametrize("cost", [np.int64(34), np.float32(34), np.array([34]), torch.tensor(34)])
def test_a_reference_from_numpy_is_the_plain_one(cost):
    made = instance(reference=cost)

    assert made.reference == 34
    assert type(made.reference) is float
    assert made.digest == instance(reference=34).digest


def test_any_change_of_the_problem_changes_the_digest():
    changed = [
        instance(),
        instance(demand=[3, 2, 4]),
        instance(demand=[2, 3, 4.5]),
        instance(capacity=7),
        instance(coordinates=[[0, 0], [3, 4], [6, 8], [0, 7 + 1e-9]]),
        instance(coordinates=[[3, 4], [0, 0], [6, 8], [0, 7]]),
        instance(coordinates=[[0, 0], [4, 3], [8, 6], [7, 0]]),
        instance(rounding="nearest"),
        instance(rounding="up"),
        instance(max_routes=2),
        instance(max_routes=3),
        instance(coordinates=[[0, 0], [3, 4], [6, 8]], demand=[2, 3]),
    ]

    assert len({x.digest for x in changed}) == len(changed)


def test_the_digest_survives_a_copy():
    assert replace(instance(), name="copy").digest == instance().digest


def test_the_environment_takes_instances_of_one_size_as_a_batch():
    batch = [instance(), instance(demand=[6, 0, 1]), instance(capacity=2e4)]
    state = MultiTaskCVRPEnv(seed=0).reset(as_tensordict(batch))

    assert state.batch_size == (3,)
    assert state["locs"].shape == (3, 4, 2)
    assert state["locs"].dtype == state["demand"].dtype == torch.float32
    assert state["demand"][0].tolist() == pytest.approx([2 / 6, 3 / 6, 4 / 6])
    assert state["action_mask"][:, 1:].all()


@pytest.mark.parametrize(
    "xy",
    [
        [[1e12, -1e12], [-1e12, 1e12]],
        [[5, 1e12], [5, -1e12]],
        [[0, 0], [5e-324, 1e12]],
        [[0, 0], [5e-324, 0]],
        [[1e12, 0], [1e12 - 1e-3, 0]],
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_environment_takes_the_largest_and_closest_coordinates(xy):
    td = as_tensordict([Instance(xy, [1], 1)])

    assert torch.isfinite(MultiTaskCVRPEnv(seed=0).reset(td)["locs"]).all()
