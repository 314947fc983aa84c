"""Evaluate methods on sets of instances."""

import math

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rl4co_prompt.evaluation.methods import Method
from rl4co_prompt.evaluation.references import Cache, Reference, reference_costs, reference_solver
from rl4co_prompt.evaluation.solvers import ReferenceSolver
from rl4co_prompt.evaluation.suites import InstanceSet, with_references, without
from rl4co_prompt.inference.search import COPIES
from rl4co_prompt.inference.solution import Attempt, Solution
from rl4co_prompt.inference.solver import Solver
from rl4co_prompt.tasks.instance import Instance


def half_interval(parts: Sequence[np.ndarray]) -> float:
    """Half the 95 % interval (Student's) of the mean over samples from several sets."""
    from scipy.stats import t

    if any(len(part) < 2 for part in parts):
        return math.nan
    count = sum(len(part) for part in parts)
    variance = sum(len(part) * part.var(ddof=1) for part in parts) / count**2
    return float(t.ppf(0.975, count - len(parts)) * math.sqrt(variance))


@dataclass(frozen=True)
class Score:
    """What a method reached on a set, or on all of them.

    Args:
        costs: [instance].
        references: [instance], NaN where none is known.
        seconds, rollouts: mean per instance.
        strata: number of instances of each set, in order; an average's interval is over sets.
    """

    method: str
    augmented: bool
    set: str
    costs: np.ndarray
    references: np.ndarray
    seconds: float
    rollouts: float
    strata: tuple[int, ...] = ()

    @property
    def gaps(self) -> np.ndarray:
        """[instance] in percent."""
        return 100 * (self.costs / self.references - 1)

    @property
    def mean_gap(self) -> float:
        """Mean of the instances' gaps, in percent."""
        return float(self.gaps.mean())

    @property
    def gap_of_means(self) -> float:
        """Gap of the mean cost, in percent."""
        return float(100 * (self.costs.mean() / self.references.mean() - 1))

    @property
    def interval(self) -> float:
        """Half the 95 % interval of the mean gap; NaN for a single instance."""
        parts = np.split(self.gaps, np.cumsum(self.strata)[:-1]) if self.strata else [self.gaps]
        return half_interval(parts)

    @property
    def name(self) -> str:
        """The method, and whether the symmetry copies took part."""
        return f"{self.method} x{COPIES}" if self.augmented else self.method


@dataclass
class Evaluation:
    """All that a report shows.

    Args:
        solutions: of the largest budget of each policy, by method and set.
        left_out: name of the set, name of the instance, and why it is in no figure.
    """

    suite: str
    sets: list[InstanceSet]
    methods: list[Method]
    scores: list[Score] = field(default_factory=list)
    solutions: dict[tuple[str, str], list[Solution]] = field(default_factory=dict)
    left_out: list[tuple[str, str, str]] = field(default_factory=list)

    def score(self, name: str, of: str) -> Score:
        """The score of a row such as ``prompt x8`` on a set."""
        return next(s for s in self.scores if (s.name, s.set) == (name, of))

    def names(self) -> list[str]:
        """The rows: methods without copies, then with them."""
        ordered = sorted(self.scores, key=lambda score: score.augmented)
        return list(dict.fromkeys(score.name for score in ordered))

    def average(self, name: str) -> Score:
        """Over the instances of all sets, as the paper averages CVRPLIB."""
        parts = [self.score(name, one.name) for one in self.sets]
        sizes = np.array([len(part.costs) for part in parts])
        return Score(
            parts[0].method,
            parts[0].augmented,
            "average",
            np.concatenate([part.costs for part in parts]),
            np.concatenate([part.references for part in parts]),
            float(np.average([part.seconds for part in parts], weights=sizes)),
            float(np.average([part.rollouts for part in parts], weights=sizes)),
            tuple(sizes.tolist()),
        )


@dataclass(frozen=True)
class SolverOptions:
    """How reference solvers run.

    Args:
        seconds: per instance; the paper's by size if None.
        jobs: instances at a time.
        binary: of LKH-3.
        cache: file of costs that are known already.
        extra_vehicles: let LKH-3 use more vehicles than the demand needs.
    """

    seconds: float | None = None
    jobs: int = 1
    binary: str | None = None
    cache: Path | None = None
    extra_vehicles: bool = False

    def solver(self, name: str) -> ReferenceSolver:
        """A reference solver by name."""
        return reference_solver(name, self.seconds, self.binary, self.extra_vehicles)

    def references(
        self, name: str, instances: Sequence[Instance], failed: dict[str, str]
    ) -> dict[str, Reference]:
        """What a solver finds, by digest; ``failed`` takes why it does not."""
        found = reference_costs(
            instances, self.solver(name), Cache(self.cache), self.jobs, failed=failed
        )
        solved = [i.digest for i in instances if i.digest not in failed]
        return dict(zip(solved, found, strict=True))


def evaluate(
    suite: str,
    sets: Sequence[InstanceSet],
    methods: Sequence[Method],
    solver_for: Callable[[Method], Solver],
    augment: bool = False,
    seed: int = 0,
    options: SolverOptions | None = None,
) -> Evaluation:
    """Score every method on every set; with ``augment`` policies get a second row.

    An instance that a solver among the methods fails on is left out of all rows.

    Args:
        solver_for: gives the policy of a method.
        options: of the solvers among the methods.
    """
    _check_budgets(methods, augment)
    found = Evaluation(suite, [], list(methods))
    for one in sets:
        one, solved = _solver_runs(one, methods, options or SolverOptions())
        found.left_out += [(one.name, *pair) for pair in one.left_out]
        if not one.instances:
            continue
        found.sets.append(one)
        for group in _groups(methods):
            if not group[0].neural:
                found.scores.append(_solver_score(group[0], one, solved[group[0].label]))
                continue
            _policy_scores(found, group, one, solver_for(group[0]), augment, seed)
    if not found.sets:
        raise ValueError("No instance is left to evaluate.")
    return found


def add_references(
    sets: Sequence[InstanceSet], name: str, options: SolverOptions
) -> list[InstanceSet]:
    """Solve the instances that have no best-known cost with a reference solver.

    Those that it fails on, or that cost nothing, are left out.
    """
    missing = [i for one in sets for i in one.instances if i.reference is None]
    failed: dict[str, str] = {}
    solved = options.references(name, missing, failed)
    free = {digest for digest, found in solved.items() if found.cost <= 0}
    failed |= dict.fromkeys(free, "its best cost is 0, so there are no gaps to it.")
    solver = options.solver(name)
    costs = {
        i.digest: (solved[i.digest].cost, f"{name}, {solver.seconds_for(i):g} s")
        for i in missing
        if i.digest not in failed
    }
    return with_references([without(one, failed) for one in sets], costs)


def reached(solution: Solution, num_prompts: int, augmented: bool) -> list[Attempt]:
    """The attempts that a smaller budget would have made."""
    return [
        attempt
        for attempt in solution.attempts
        if attempt.rank < num_prompts and (augmented or attempt.copy == 0)
    ]


def _check_budgets(methods: Sequence[Method], augment: bool) -> None:
    for method in methods:
        if augment and method.passes is not None and method.passes < COPIES:
            raise ValueError(f"{method.label} has fewer passes than the {COPIES} copies.")


def _groups(methods: Sequence[Method]) -> list[list[Method]]:
    """Methods whose figures come from one run of one policy."""
    groups: dict[tuple, list[Method]] = {}
    for method in methods:
        own = method.label if method.passes or not method.neural else None
        groups.setdefault((method.kind, method.weights, method.pool, own), []).append(method)
    return list(groups.values())


def _policy_scores(
    found: Evaluation,
    group: list[Method],
    one: InstanceSet,
    solver: Solver,
    augment: bool,
    seed: int,
) -> None:
    prompts = max(method.num_prompts for method in group)
    passes = group[0].passes
    solver.label = f"{group[0].label} on {one.label}"
    if passes is None:
        solutions = solver.solve(list(one.instances), prompts, augment, seed=seed)
        runs = [(False, solutions), (True, solutions)][: 1 + augment]
    else:
        runs = []
        for augmented in (False, True)[: 1 + augment]:
            greedy = COPIES if augmented else 1
            runs.append(
                (
                    augmented,
                    solver.solve(
                        list(one.instances), 1, augmented, seed=seed, samples=passes - greedy
                    ),
                )
            )
    for method in group:
        for augmented, solutions in runs:
            tried = [reached(s, method.num_prompts, augmented) for s in solutions]
            found.scores.append(
                Score(
                    method.label,
                    augmented,
                    one.name,
                    np.array([min(attempt.cost for attempt in part) for part in tried]),
                    reference_array(one),
                    float(np.mean([sum(a.seconds for a in part) for part in tried])),
                    float(np.mean([sum(a.rollouts for a in part) for part in tried])),
                )
            )
        found.solutions[method.label, one.name] = runs[-1][1]


def _solver_runs(
    one: InstanceSet, methods: Sequence[Method], options: SolverOptions
) -> tuple[InstanceSet, dict[str, dict[str, Reference]]]:
    """The instances that every solver solved, and what each found, by digest."""
    failed: dict[str, str] = {}
    solved = {
        method.label: options.references(method.kind, one.instances, failed)
        for method in methods
        if not method.neural
    }
    return without(one, failed), solved


def _solver_score(method: Method, one: InstanceSet, solved: dict[str, Reference]) -> Score:
    results = [solved[instance.digest] for instance in one.instances]
    costs = np.array([result.cost for result in results])
    seconds = float(np.mean([result.seconds for result in results]))
    return Score(method.label, False, one.name, costs, reference_array(one), seconds, math.nan)


def reference_array(one: InstanceSet) -> np.ndarray:
    """Best-known costs, NaN where none is. -> [instance]"""
    return np.array([np.nan if i.reference is None else i.reference for i in one.instances])
