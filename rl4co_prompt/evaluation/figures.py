"""Figures of an evaluation; each draws one thing on the axes it gets."""

from typing import TYPE_CHECKING

import numpy as np

from rl4co_prompt.evaluation.evaluate import Evaluation, half_interval, reached
from rl4co_prompt.inference.search import COPIES
from rl4co_prompt.inference.solution import Solution
from rl4co_prompt.policy.pool import PromptPool

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2a6fbb", "#d1602b", "#2f8f5b", "#8a4fb0", "#b8860b", "#c0396b", "#4c7d86", "#7a6a55")


def plot_budget(ax: "Axes", result: Evaluation) -> "Axes":
    """Mean gap of all instances against rollouts per instance, pass by pass."""
    from matplotlib.ticker import LogLocator, NullFormatter

    curves = budget_curves(result)
    for colour, (method, (budget, gaps)) in zip(_cycle(), curves.items(), strict=False):
        # The first passes may be those of a smaller budget: that one lies on top, on a wider line.
        width = 1.3 + 1.7 * sum(_begins_with(gaps, other) for _, other in curves.values())
        (line,) = ax.plot(budget, gaps, "o-", color=colour, label=method)
        line.set(linewidth=width, markersize=2 + width, zorder=2 + 1 / len(gaps))
    ax.set(xlabel="rollouts per instance", ylabel="mean gap in %", xscale="log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    _legend_above(ax)
    return ax


def budget_curves(result: Evaluation) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rollouts per instance and mean gap after each pass, by policy. -> [pass], [pass]"""
    curves = {}
    for method, runs in _largest_runs(result).items():
        solutions = [s for run in runs for s in run]
        if not solutions:
            continue
        length = min(len(s.attempts) for s in solutions)
        costs = np.array([[a.cost for a in s.attempts[:length]] for s in solutions])
        rollouts = np.array([[a.rollouts for a in s.attempts[:length]] for s in solutions])
        reference = np.array([[s.instance.reference] for s in solutions], dtype=float)
        gaps = 100 * (np.minimum.accumulate(costs, 1) / reference - 1)
        curves[method] = (rollouts.cumsum(1).mean(0), gaps.mean(0))
    return curves


def _begins_with(gaps: np.ndarray, other: np.ndarray) -> bool:
    """Whether the longer curve would hide the other."""
    return len(other) < len(gaps) and np.allclose(gaps[: len(other)], other)


def plot_top_k(ax: "Axes", result: Evaluation) -> "Axes":
    """Mean gap against the number of prompts that compete."""
    from matplotlib.ticker import MaxNLocator

    for colour, (method, runs) in zip(_cycle(), _largest_runs(result).items(), strict=False):
        attempts = [a for run in runs for s in run for a in s.attempts]
        if not attempts or attempts[0].prompt is None:
            continue
        ranks = 1 + max(a.rank for a in attempts)
        augmented = any(a.copy for a in attempts)
        for copies, style in ((False, "o-"), (True, "s--"))[: 1 + augmented]:
            means, errors = zip(
                *(_mean_gap(runs, k, copies) for k in range(1, ranks + 1)), strict=True
            )
            label = f"{_family(method)} x{COPIES}" if copies else _family(method)
            ax.errorbar(
                range(1, ranks + 1), means, errors, fmt=style, color=colour, label=label, capsize=2
            )
    ax.set(xlabel="prompts that compete (k)", ylabel="mean gap in %")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend_above(ax)
    return ax


def plot_selection(ax: "Axes", result: Evaluation, method: str) -> "Axes":
    """How often each prompt is the nearest one, by set (the paper's figure)."""
    share = selection(result, method)
    ax.imshow(np.ma.masked_less(share, 0.005), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(share):
        if value >= 0.005:
            colour = "white" if value > 0.5 else "#111"
            ax.text(
                column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour, size=8
            )
    ax.set(xlabel="prompt", xticks=range(share.shape[1]), yticks=range(share.shape[0]))
    ax.set_yticklabels([one.label for one in result.sets])
    return ax


def selection(result: Evaluation, method: str) -> np.ndarray:
    """Share of instances by set and nearest prompt of the pool. -> [set, prompt]"""
    pool = next(m.pool for m in result.methods if m.label == method and m.pool)
    count = PromptPool.load(pool).num_prompts
    runs = [result.solutions[method, one.name] for one in result.sets]
    nearest = [np.array([s.attempts[0].prompt for s in run]) for run in runs]
    return np.array([[(row == k).mean() for k in range(count)] for row in nearest])


def extremes(result: Evaluation, count: int = 3) -> tuple[str, list[Solution], list[Solution]]:
    """The method with the lowest mean gap, and its best and worst instances."""
    best: tuple[float, str, list[Solution]] | None = None
    for method, runs in _largest_runs(result).items():
        known = [s for run in runs for s in run]
        if known:
            mean = float(np.mean([s.gap for s in known]))
            if best is None or mean < best[0]:
                best = (mean, method, known)
    if best is None:
        return "", [], []
    ordered = sorted(best[2], key=lambda s: s.gap)  # type: ignore[arg-type, return-value]
    count = min(count, len(ordered) // 2) or 1
    worst = ordered[::-1][:count] if len(ordered) > 1 else []
    copies = f" x{COPIES}" if any(a.copy for a in ordered[0].attempts) else ""
    return best[1] + copies, ordered[:count], worst


def _largest_runs(result: Evaluation) -> dict[str, list[list[Solution]]]:
    """The solutions with known gaps of each run, by set, under its largest method."""
    runs: dict[int, tuple[str, list[list[Solution]]]] = {}
    for method in sorted(result.methods, key=lambda m: m.num_prompts):
        found = [result.solutions.get((method.label, one.name)) for one in result.sets]
        lists = [run for run in found if run is not None]
        if lists:
            known = [[s for s in run if s.gap is not None] for run in lists]
            runs[id(lists[0])] = (method.label, [run for run in known if run])
    return dict(runs.values())


def _mean_gap(runs: list[list[Solution]], k: int, augmented: bool) -> tuple[float, float]:
    """Over all sets, with half its 95 % interval as in the tables."""

    def gap(solution: Solution) -> float:
        best = min(a.cost for a in reached(solution, k, augmented))
        return 100 * (best / (solution.instance.reference or np.nan) - 1)

    parts = [np.array([gap(solution) for solution in run]) for run in runs]
    return float(np.concatenate(parts).mean()), half_interval(parts)


def _family(method: str) -> str:
    """The policy of a row, without its number of prompts."""
    head, _, tail = method.partition("-top")
    return head + tail.lstrip("0123456789")


def _legend_above(ax: "Axes") -> None:
    """Out of the way of the curves."""
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)


def _cycle() -> list[str]:
    return list(COLOURS) * 4
