import numpy as np
import pytest

from rl4co_prompt import Instance, MultiTaskCVRPEnv, TaskGenerator
from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.inference.search import Pass, Search, passes, routes_of


def test_a_pass_in_parts_makes_every_start(policy):
    """Also where one start is left over: RL4CO would choose it freely."""
    one = TaskGenerator("17-cluster")(1, rng=0)
    env, instances = MultiTaskCVRPEnv(check_solution=False), read_instances(one)
    for size in (1, 5, 16):
        whole, parts = (Search(policy, env, instances) for _ in range(2))
        whole.run(Pass(0, (0,)))
        for low in range(0, 17, size):
            parts.run(Pass(0, (0,)), low, min(17, low + size))
        assert parts.best[0].cost == pytest.approx(whole.best[0].cost)


def test_a_thousand_customers_are_solved_from_a_few_starts(outside_backbone):
    rng = np.random.default_rng(0)
    big = Instance(rng.integers(0, 1000, (1001, 2)), rng.integers(1, 100, 1000), 1000)
    search = Search(outside_backbone, MultiTaskCVRPEnv(check_solution=False), [big])
    search.run(Pass(0, (0,)), 0, 16)
    (solution,) = search.solutions()

    assert (solution.method, solution.rollouts) == ("greedy", 16)
    assert big.violation(solution.routes) is None
    assert len(solution.routes) >= -(-big.demand.sum() // 1000)


@pytest.mark.parametrize(
    ("tour", "routes"),
    [
        ([0, 2, 1, 0, 3], [[2, 1], [3]]),
        ([0, 2, 1, 0, 3, 0, 0], [[2, 1], [3]]),
        ([2, 0, 0, 3, 1], [[2], [3, 1]]),
        ([0], []),
    ],
    ids=["plain", "waiting in the depot", "depot in a row", "nobody"],
)
def test_a_tour_is_cut_into_routes_at_the_depot(tour, routes):
    assert routes_of(np.array(tour)) == routes


def test_a_budget_asks_for_copy_0_then_the_others_then_samples():
    asked = list(passes(2, augment=True, samples=3))

    assert [(x.rank, x.copies) for x in asked[:4]] == [
        (0, (0,)),
        (0, tuple(range(1, 8))),
        (1, (0,)),
        (1, tuple(range(1, 8))),
    ]
    assert [x.sampled for x in asked] == [None] * 4 + [0, 1, 2]
    assert [(x.rank, x.copies) for x in asked[4:]] == [(0, (0,)), (1, (1,)), (0, (2,))]
