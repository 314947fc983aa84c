"""Solve generated instances of several maps with the weights that ship, and draw one of each.

make solve        or        python examples/01_solve.py
"""

from pathlib import Path

import matplotlib

from rich.console import Console
from rich.table import Table

from rl4co_prompt import Solver, TaskGenerator

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COUNT, SIZE = 16, 100
PICTURE = Path("outputs/01_solve.png")


def main() -> None:
    solver = Solver.from_pretrained("cvrp")
    table = Table(title=f"{COUNT} instances of {SIZE} customers: mean cost of the best tour")
    for column in ("map", "one pass", "all passes", "seconds"):
        table.add_column(column, justify="left" if column == "map" else "right")
    figure, axes = plt.subplots(1, 4, figsize=(14, 4), layout="constrained")
    for ax, name in zip(axes, ("uniform", "gm-3-10", "explosion", "grid"), strict=True):
        instances = TaskGenerator(f"{SIZE}-{name}")(COUNT, rng=0)
        solutions = solver.solve(instances)
        plain = sum(solution.attempts[0].cost for solution in solutions) / COUNT
        cost = sum(solution.cost for solution in solutions) / COUNT
        seconds = sum(solution.seconds for solution in solutions)
        table.add_row(name, f"{plain:.3f}", f"{cost:.3f}", f"{seconds:.1f}")
        solutions[0].plot(ax).set_title(f"{name}: {solutions[0].cost:.2f}")
    Console().print(table)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(f"Routes drawn in {PICTURE}")


if __name__ == "__main__":
    main()
