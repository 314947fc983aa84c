"""Solution: routes of one instance, checked, and how they were found."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl4co_prompt.tasks.instance import Instance
from rl4co_prompt.tasks.vrplib import write_sol

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Attempt:
    """The best of all starts of one pass over an instance.

    Args:
        rank: 0 for the nearest prompt, 1 for the next.
        copy: index of the symmetry copy, 0 for the instance itself.
        prompt: index of the prompt; None for a policy without prompts.
        cost: by the instance's own rounding.
        seconds: that it took, its share of the pass.
        rollouts: tours built.
        method: ``greedy`` or ``sampled`` tours, or ``nearest`` neighbours without the policy.
    """

    rank: int
    copy: int
    prompt: int | None
    cost: float
    seconds: float = 0.0
    rollouts: int = 0
    method: str = "greedy"


@dataclass(frozen=True)
class Solution:
    """Routes of one instance; making one checks them on the instance's original numbers.

    Args:
        routes: lists of customer numbers, 1 to n.
        best: the attempt that found them.
        attempts: all that the policy made.
    """

    instance: Instance
    routes: list[list[int]]
    best: Attempt
    attempts: tuple[Attempt, ...]

    def __post_init__(self) -> None:
        wrong = self.instance.violation(self.routes)
        if wrong is not None:
            raise RuntimeError(f"{self.instance.name}: the policy went wrong, {wrong}.")

    @cached_property
    def cost(self) -> float:
        """By the instance's own rounding, the figure that was minimised."""
        return self.instance.cost(self.routes)

    @cached_property
    def exact_cost(self) -> float:
        """Length of the routes in the original coordinates, unrounded."""
        return self.instance.exact_cost(self.routes)

    @cached_property
    def rounded_cost(self) -> int:
        """Cost as CVRPLIB takes it, every edge rounded."""
        return self.instance.rounded_cost(self.routes)

    @property
    def gap(self) -> float | None:
        """Excess over the best cost known, 0.01 for one percent; None where none is known."""
        reference = self.instance.reference
        return None if reference is None else self.cost / reference - 1

    @property
    def policy_best(self) -> Attempt | None:
        """The policy's best attempt, which neighbours may have beaten; None without one."""
        return min(self.attempts, key=lambda attempt: attempt.cost, default=None)

    @property
    def prompt(self) -> int | None:
        return self.best.prompt

    @property
    def copy(self) -> int:
        return self.best.copy

    @property
    def method(self) -> str:
        return self.best.method

    @property
    def seconds(self) -> float:
        """Spent on this instance: its share where several were solved together."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def rollouts(self) -> int:
        """Tours built for this instance."""
        return sum(attempt.rollouts for attempt in self.attempts)

    @property
    def within_fleet(self) -> bool:
        """Whether there are no more routes than the file has vehicles."""
        limit = self.instance.max_routes
        return limit is None or len(self.routes) <= limit

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the routes."""
        import matplotlib

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(5, 5.3), layout="constrained")[1]
        xy = self.instance.coordinates
        colours = _colours(len(self.routes))
        for route, colour in zip(self.routes, colours, strict=True):
            ax.plot(*xy[[0, *route, 0]].T, linewidth=1, color=colour, zorder=1)
        dot = max(2, min(14, 1500 / len(xy)))
        ink = matplotlib.rcParams["text.color"]
        (x, y), (depot_x, depot_y) = xy[1:].T, xy[0]
        ax.scatter(x, y, s=dot, color=ink, linewidths=0, zorder=2)
        ax.scatter(depot_x, depot_y, s=48, color=ink, marker="s", edgecolors="white", zorder=3)
        ax.set_title(self.title().replace("$", r"\$"))  # no formula
        ax.set(xticks=[], yticks=[])
        ax.set_aspect("equal", adjustable="datalim")
        return ax

    def title(self) -> str:
        """Name, cost and gap."""
        gap = "" if self.gap is None else f" ({round(self.gap, 4) + 0.0:+.2%})"  # no -0.00
        digits = max(6, len(str(int(self.cost))))
        routes = f"{len(self.routes)} route" + ("s" if len(self.routes) != 1 else "")
        return f"{self.instance.name}: {self.cost:.{digits}g}{gap}, {routes}"

    def write(self, path: str | Path) -> Path:
        """Write a CVRPLIB .sol file."""
        path = Path(path)
        if path.suffix != ".sol":
            raise ValueError(f"{path} must end in .sol.")
        return write_sol(self.routes, self.cost, path)

    def as_dict(self) -> dict[str, Any]:
        """What a program wants to read."""
        instance = self.instance
        return {
            "name": instance.name,
            "customers": instance.num_customers,
            "cost": self.cost,
            "exact_cost": self.exact_cost,
            "rounded_cost": self.rounded_cost,
            "reference": instance.reference,
            "reference_source": instance.source or None,
            "gap": self.gap,
            "routes": self.routes,
            "max_routes": instance.max_routes,
            "within_fleet": self.within_fleet,
            "prompt": self.prompt,
            "copy": self.copy,
            "method": self.method,
            "rollouts": self.rollouts,
            "seconds": self.seconds,
        }


def _colours(count: int) -> list[Any]:
    import matplotlib

    if count <= 10:
        return list(matplotlib.colormaps["tab10"].colors[:count])  # type: ignore[attr-defined]
    # Neighbours far apart in hue, and none too dark or too light for its background.
    return [matplotlib.colormaps["turbo"](0.12 + 0.78 * ((i * 0.618) % 1)) for i in range(count)]
