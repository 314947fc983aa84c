import numpy as np
import pytest

from rl4co_prompt.evaluation.problem import distances, fault, fleet, loads, min_routes, shortest
from rl4co_prompt.tasks.instance import Instance
from tests.evaluation.small import best_cost, small_instance

ROUNDINGS = ["none", "nearest", "up", "down"]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_the_distances_add_up_to_the_instances_cost(rounding):
    instance = small_instance(5, rounding=rounding)
    matrix = distances(instance)

    assert matrix.shape == (6, 6)
    assert np.array_equal(matrix, matrix.T)
    total = matrix[0, 2] + matrix[2, 4] + matrix[4, 0]
    assert instance.cost([[2, 4]]) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("capacity", [9, 12, 27])
def test_tiny_instances_are_solved_exactly(size, rounding, capacity):
    instance = small_instance(size, seed=size, rounding=rounding, capacity=capacity)

    assert instance.cost(shortest(instance)) == best_cost(instance)


def test_tiny_instances_with_too_few_vehicles_are_refused():
    instance = Instance(np.eye(4)[:, :2], [6, 6, 6], 10, name="full", max_routes=2)

    with pytest.raises(RuntimeError, match="full has no feasible routes with 2 vehicles"):
        shortest(instance)


def test_demands_become_whole_in_the_largest_unit():
    instance = Instance(np.eye(4)[:, :2], [0.5, 1.5, 1.0], 2.25)

    assert loads(instance, 1000) == ([1, 3, 2], 4)


def test_a_capacity_above_the_whole_demand_is_cut():
    assert loads(Instance(np.eye(4)[:, :2], [1, 2, 4], 1e12), 1000) == ([1, 2, 4], 7)


def test_customers_without_demand_get_one_that_fits_a_single_vehicle():
    assert loads(Instance(np.eye(4)[:, :2], [0, 0, 0], 5), 1000) == ([1, 1, 1], 3)


def test_a_fine_unit_is_coarsened_such_that_no_overfull_route_fits():
    instance = Instance(np.eye(5)[:, :2], [0.123_456_789, 0.5, 0.6, 0.999_999_9], 1)
    demand, capacity = loads(instance, 1000)

    assert capacity == 1000
    for d, exact in zip(demand, instance.demand, strict=True):
        assert 0 <= d / capacity - exact / instance.capacity < 1 / 1000


def test_the_fleet_is_free_unless_the_instance_limits_it():
    instance = small_instance(40, capacity=20)

    assert min_routes(instance) == -(-int(instance.demand.sum()) // 20)
    assert fleet(instance) == min(40, 2 * min_routes(instance) + 5)
    assert fleet(small_instance(10, max_routes=6)) == 6
    assert fleet(small_instance(4, max_routes=6)) == 4


def test_routes_beyond_the_number_of_vehicles_are_a_fault():
    routes = [[1], [2], [3]]

    assert fault(small_instance(3), routes) is None
    assert "3 routes, but 2 vehicles" in fault(small_instance(3, max_routes=2), routes)
    assert "once" in fault(small_instance(3), routes[:2])
