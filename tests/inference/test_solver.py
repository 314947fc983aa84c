import numpy as np
import pytest
import torch

from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt import Instance, MultiTaskCVRPEnv, Solution, Solver, TaskGenerator, save_backbone
from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.inference.nearest import nearest_neighbours
from rl4co_prompt.tasks.vrplib import write_vrp
from tests.conftest import outside
from tests.inference.grid import GRID, instance, length


def test_routes_are_feasible_and_cost_what_they_say(solver):
    td = TaskGenerator("12-cluster")(6, rng=0)
    for solution in solver.solve(td):
        served = sorted(customer for route in solution.routes for customer in route)
        assert served == list(range(1, 13))
        for route in solution.routes:
            assert solution.instance.demand[np.array(route) - 1].sum() <= solution.instance.capacity
        assert solution.exact_cost == pytest.approx(length(solution.instance, solution.routes))
        assert solution.cost == solution.exact_cost == pytest.approx(solution.best.cost)


def test_the_best_attempt_is_the_cost_of_the_solution(solver):
    """Also for the longest tour of a batch, which does not end in the depot."""
    rounded = [instance(n, 6, rounding="nearest") for n in (5, 5, 8, 11)]
    for solution in [*solver.solve(rounded), *solver.solve(TaskGenerator("9-grid")(8, rng=3))]:
        (neighbours,) = nearest_neighbours([solution.instance])
        assert solution.best.cost == min(solution.policy_best.cost, neighbours[0].cost)
        assert solution.cost == pytest.approx(solution.best.cost, rel=1e-12)


def test_a_solution_is_as_good_as_the_policys_best_rollout(solver, policy):
    """RL4CO's stock loop over the same copies and prompts is the reference."""
    from rl4co.data.transforms import StateAugmentation

    td = TaskGenerator("10-uniform")(5, rng=1)
    env = MultiTaskCVRPEnv("10-uniform")
    rows = StateAugmentation(8, "dihedral8")(env.reset(td))
    out = policy(
        rows, env, engine="stock", decode_type="multistart_greedy", num_starts=10, num_prompts=3
    )
    best = -out["reward"].view(10, 8, 5).amax((0, 1))
    costs = [solution.policy_best.cost for solution in solver.solve(td, num_prompts=3)]

    assert costs == pytest.approx(best.tolist(), rel=1e-5)


def test_more_prompts_or_copies_make_no_greedy_result_worse_and_samples_none(solver):
    td = TaskGenerator("14-gm-3-10")(6, rng=5)
    budgets = [
        {"num_prompts": k, "augment": a, "samples": s}
        for k in (1, 2, 4)
        for a in (False, True)
        for s in (0, 3)
    ]
    costs = {str(b): [x.cost for x in solver.solve(td, **b)] for b in budgets}
    for small in budgets:
        for large in budgets:
            same = small["num_prompts"] == large["num_prompts"] and (
                small["augment"] == large["augment"]
            )  # sampled tours differ where they begin from other prompts and copies
            if all(small[key] <= large[key] for key in small) and (same or not small["samples"]):
                assert all(
                    b <= a for a, b in zip(costs[str(small)], costs[str(large)], strict=True)
                ), (small, large)


def test_prompt_and_copy_say_which_attempt_won(solver):
    td = TaskGenerator("12-cluster")(8, rng=2)
    for solution in solver.solve(td, num_prompts=4):
        winner = solution.best
        assert (solution.prompt, solution.copy) == (winner.prompt, winner.copy)
        assert winner in solution.attempts or winner.method == "nearest"
        assert {attempt.copy for attempt in solution.attempts} == set(range(8))
        assert len({(a.rank, a.copy) for a in solution.attempts}) == 4 * 8
        for copy in range(8):
            assert len({a.prompt for a in solution.attempts if a.copy == copy}) == 4
        assert solution.rollouts == 4 * 8 * 12


def test_the_nearest_prompt_is_tried_first(solver, policy):
    env, td = MultiTaskCVRPEnv(), TaskGenerator("12-cluster")(6, rng=4)
    nearest = policy.explain(env.reset(td)).prompts.tolist()

    assert [x.attempts[0].prompt for x in solver.solve(td, augment=False)] == nearest


def test_order_is_kept_when_sizes_are_mixed(solver):
    mixed = [instance(n, name=f"of {n}") for n in (7, 3, 11, 3, 7)]

    assert [x.instance.name for x in solver.solve(mixed)] == [i.name for i in mixed]


def test_a_file_gives_a_solution_and_a_list_gives_a_list(solver, tmp_path):
    file = write_vrp(instance(name="a"), tmp_path / "a.vrp")

    assert isinstance(solver.solve(file), Solution)
    assert isinstance(solver.solve(str(file)), Solution)
    assert [x.instance.name for x in solver.solve([file])] == ["a"]
    assert [x.instance.name for x in solver.solve(tmp_path)] == ["a"]
    assert solver.solve([]) == []


def test_a_folder_named_as_a_file_gives_a_list(solver, tmp_path):
    write_vrp(instance(name="a"), tmp_path / "x.vrp" / "a.vrp")

    assert [x.instance.name for x in solver.solve(tmp_path / "x.vrp")] == ["a"]


@pytest.mark.parametrize(
    ("arrays", "routes", "cost"),
    [
        ({"depot": [0, 0], "customers": [[3, 4]], "demand": [5], "capacity": 5}, 1, 10),
        ({"depot": [0, 0], "customers": [[3, 4]] * 2, "demand": [5, 5], "capacity": 5}, 2, 20),
        ({"depot": [7, 7], "customers": [[7, 7]] * 9, "demand": [1] * 9, "capacity": 3}, 3, 0),
        ({"depot": [-5, 2], "customers": [[-5, 9]] * 3, "demand": [0] * 3, "capacity": 1}, 1, 14),
    ],
    ids=["one customer", "demand equals capacity", "all in one place", "no demand"],
)
def test_degenerate_instances_are_solved(solver, arrays, routes, cost):
    (solution,) = solver.solve(arrays)

    assert len(solution.routes) >= routes
    assert solution.cost >= cost or solution.cost == pytest.approx(cost)


def test_exact_capacities_hold_beyond_float32(solver):
    """Two demands exceed the capacity by one unit in a billion."""
    arrays = {
        "depot": [0, 0],
        "customers": GRID[1:9],
        "demand": [500_000_000, 500_000_001] * 4,
        "capacity": 1_000_000_000,
    }
    (solution,) = solver.solve(arrays)
    demand = np.array(arrays["demand"], dtype=object)

    assert all(demand[np.array(route) - 1].sum() <= 10**9 for route in solution.routes)


def test_rounded_instances_are_judged_by_their_rounding(solver):
    solution = solver.solve(instance(rounding="nearest", reference=100, source="a table"))
    edges = [
        int(np.linalg.norm(GRID[a] - GRID[b]) + 0.5)
        for route in solution.routes
        for a, b in zip([0, *route], [*route, 0], strict=True)
    ]

    assert solution.cost == solution.rounded_cost == sum(edges)
    assert solution.gap == pytest.approx(sum(edges) / 100 - 1)


def test_moving_and_scaling_the_map_changes_nothing(solver):
    """In steps that floats represent exactly; both axes alike."""
    plain = instance()
    moved = Instance(plain.coordinates * 4 - 256, plain.demand, plain.capacity)
    a, b = solver.solve([plain])[0], solver.solve([moved])[0]

    assert a.routes == b.routes
    assert 4 * a.cost == pytest.approx(b.cost)


def test_samples_depend_on_the_seed_alone(solver):
    td = TaskGenerator("12-cluster")(4, rng=7)

    def sampled(seed):
        torch.manual_seed(np.random.randint(1000))
        found = solver.solve(td, 1, False, seed=seed, samples=2)
        return [[a.cost for a in x.attempts if a.method == "sampled"] for x in found]

    assert sampled(1) == sampled(1) != sampled(2)


def test_solving_leaves_the_global_random_state_alone(solver):
    state = torch.random.get_rng_state()
    solver.solve(TaskGenerator("10-uniform")(2, rng=0), samples=1)

    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_prompts": 0}, "num_prompts must be at least 1"),
        ({"num_prompts": 2.5}, "num_prompts must be a whole number, got 2.5"),
        ({"samples": 1.5}, "samples must be a whole number"),
        ({"time_limit": 0}, "time_limit must be a positive"),
        ({"time_limit": float("nan")}, "time_limit must be a positive"),
        ({"time_limit": float("inf")}, "time_limit must be a positive"),
        ({"samples": -1}, "samples must be 0 or more"),
        ({"samples": None}, "until time_limit"),
    ],
)
def test_senseless_budgets_are_refused(solver, options, message):
    with pytest.raises(ValueError, match=message):
        solver.solve(instance(), **options)


def test_any_rl4co_policy_solves(backbone):
    torch.manual_seed(0)
    stock = AttentionModelPolicy(env_name="cvrp", embed_dim=16, num_encoder_layers=1, num_heads=2)
    for policy in (stock, backbone):
        solution = Solver(policy).solve(instance())
        assert solution.prompt is None
        assert solution.rollouts == 8 * 11


def test_policies_of_other_problems_are_refused():
    policy = AttentionModelPolicy(env_name="tsp", embed_dim=16, num_encoder_layers=1, num_heads=2)
    with pytest.raises(ValueError, match="for CVRP, the policy for 'tsp'"):
        Solver(policy)


def test_from_pretrained_takes_files_and_policies(backbone, policy, tmp_path):
    weights = save_backbone(backbone, tmp_path / "backbone.safetensors")
    pool = policy.save(tmp_path / "pool.safetensors")
    expected = Solver(policy).solve(instance()).routes

    assert Solver.from_pretrained(weights, pool).solve(instance()).routes == expected
    assert Solver.from_pretrained(backbone, pool, "cpu").solve(instance()).routes == expected
    assert Solver.from_pretrained(str(weights)).solve(instance()).prompt is None


def test_unknown_weights_are_told():
    with pytest.raises(FileNotFoundError, match=r"No backbone weights at elsewhere\.pt; give"):
        Solver.from_pretrained("elsewhere.pt")


def test_published_costs_come_out(outside_backbone):
    """AMDKD's n=100 student, first 50 of the set: 15.811, as the data's README states."""
    path = outside("uniform/mvmoe_cvrp100_uniform_0-499.npz")

    found = Solver(outside_backbone).solve(read_instances(path)[:50], augment=False)

    assert np.mean([x.cost for x in found]) == pytest.approx(15.811, abs=0.002)


def test_solving_leaves_the_mode_and_the_statistics_of_a_policy_alone():
    torch.manual_seed(0)
    policy = AttentionModelPolicy(
        env_name="cvrp", embed_dim=16, num_encoder_layers=1, num_heads=2, normalization="batch"
    )
    solver = Solver(policy)
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    costs = []
    for training in (False, True):
        policy.train(training)
        costs.append(solver.solve(instance()).cost)
        assert policy.training is training

    assert costs[0] == costs[1]
    assert all(torch.equal(before[key], value) for key, value in policy.state_dict().items())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_routes(policy):
    td = TaskGenerator("12-cluster")(4, rng=0)
    here = [x.cost for x in Solver(policy).solve(td)]
    there = Solver(policy.to("cuda"))

    assert [x.cost for x in there.solve(td)] == pytest.approx(here, rel=1e-3)
    assert len(there.solve(td, samples=1, time_limit=10)) == 4
