"""Compare methods at equal time: the same seconds per instance, on the same cores."""

import time

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from rl4co_prompt.evaluation.evaluate import Score, reference_array
from rl4co_prompt.evaluation.methods import Method
from rl4co_prompt.evaluation.references import reference_solver
from rl4co_prompt.evaluation.suites import InstanceSet
from rl4co_prompt.evaluation.table import Table, as_figure, as_seconds
from rl4co_prompt.inference.solver import Solver
from rl4co_prompt.tasks.instance import Instance

Run = Callable[[Instance], tuple[float, int, float]]  # -> cost, rollouts, seconds


def compare(
    one: InstanceSet,
    methods: Sequence[Method],
    solver_for: Callable[[Method], Solver],
    seconds: Sequence[float],
    cores: int = 1,
    seed: int = 0,
    lkh: str | None = None,
    failed: dict[str, str] | None = None,
) -> list[tuple[float, Score]]:
    """One instance after another, each method for the same seconds.

    Policies try all copies and prompts and then sample until the time is up. Nothing is taken
    from a cache.

    Args:
        cores: threads of the policies on the CPU; the solvers use one.
        lkh: the LKH-3 program.
        failed: takes why, by digest, of instances that a solver fails on, which are then in no
            score; None raises.
    """
    if not seconds or not all(0 < limit < np.inf for limit in seconds):
        raise ValueError(f"seconds must be positive numbers, got {list(seconds)}.")
    if cores < 1:
        raise ValueError(f"cores must be at least 1, got {cores}.")
    runs = []
    with _on_cores(cores):
        for limit in seconds:
            for method in methods:
                run = _runner(method, solver_for, limit, seed, lkh)
                runs.append((limit, method, _results(run, one.instances, failed)))
    left = [i for i, instance in enumerate(one.instances) if instance.digest not in (failed or {})]
    if not left:
        raise ValueError(f"No instance of {one.label} is left to compare.")
    references = reference_array(one)[left]
    found = []
    for limit, method, results in runs:
        costs, rollouts, spent = np.array([results[i] for i in left]).T
        score = Score(
            method.label,
            False,
            one.name,
            costs,
            references,
            float(spent.mean()),
            float(rollouts.mean()) if method.neural else np.nan,
        )
        found.append((limit, score))
    return found


def compare_table(found: Sequence[tuple[float, Score]], one: InstanceSet, where: str) -> Table:
    """Methods by seconds."""
    limits = list(dict.fromkeys(limit for limit, _ in found))
    methods = list(dict.fromkeys(score.method for _, score in found))
    cells = {(limit, score.method): score for limit, score in found}
    rows = []
    for method in methods:
        row = [method]
        for limit in limits:
            score = cells[limit, method]
            figure = f"{score.costs.mean():.4f}"
            if not np.isnan(score.references).any():
                figure = f"{as_figure(score.mean_gap)} ±{as_figure(score.interval)}"
            row.append(f"{figure} ({as_seconds(score.seconds)} s)")
        rows.append(row)
    what = "mean cost" if np.isnan(found[0][1].references).any() else "mean gap in %, ± 95 %"
    title = (
        f"{what} at equal time per instance on {where}, in brackets the seconds taken; "
        f"{len(found[0][1].costs)} instances of {one.label}, reference: {one.reference_source}"
    )
    return Table(title, ["method", *(f"{limit:g} s" for limit in limits)], rows)


def compare_rows(found: Sequence[tuple[float, Score]]) -> list[dict[str, Any]]:
    """One record per method and limit."""
    return [
        {
            "method": score.method,
            "seconds_allowed": limit,
            "seconds": score.seconds,
            "rollouts": None if np.isnan(score.rollouts) else score.rollouts,
            "mean_gap": None if np.isnan(score.mean_gap) else score.mean_gap,
            "interval": None if np.isnan(score.interval) else score.interval,
            "mean_cost": float(score.costs.mean()),
            "costs": score.costs.tolist(),
        }
        for limit, score in found
    ]


def _results(
    run: Run, instances: Sequence[Instance], failed: dict[str, str] | None
) -> dict[int, tuple[float, int, float]]:
    """By the index of the instance, as far as none failed before."""
    results = {}
    for i, instance in enumerate(instances):
        if failed and instance.digest in failed:
            continue
        try:
            results[i] = run(instance)
        except RuntimeError as error:
            if failed is None:
                raise
            failed[instance.digest] = str(error)
    return results


def _runner(
    method: Method,
    solver_for: Callable[[Method], Solver],
    limit: float,
    seed: int,
    lkh: str | None,
) -> Run:
    if not method.neural:
        outside = reference_solver(method.kind, limit, lkh)

        def solve(instance: Instance) -> tuple[float, int, float]:
            routes, seconds = outside.timed(instance)
            return instance.cost(routes), 0, seconds

        return solve
    solver = solver_for(method)

    def run(instance: Instance) -> tuple[float, int, float]:
        begin = time.perf_counter()
        found = solver.solve(instance, method.num_prompts, True, limit, seed, samples=None)
        best = found.policy_best or found.best  # neighbours count where it had no time
        return best.cost, found.rollouts, time.perf_counter() - begin

    return run


@contextmanager
def _on_cores(cores: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(cores)
    try:
        yield
    finally:
        torch.set_num_threads(before)
