"""What choosing the prompt is worth: random, one for all, nearest key, best in hindsight.

python benchmarks/selection.py --suite uniform --limit 100

Prints mean gaps in percent without symmetry copies, beside the backbone alone and the backbone
with as many rollouts as all prompts together.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from rich.console import Console
from rich.table import Table

from rl4co_prompt import Solver
from rl4co_prompt.evaluation.evaluate import SolverOptions, add_references, half_interval
from rl4co_prompt.evaluation.suites import load_suites
from rl4co_prompt.inference.solver import OWN
from rl4co_prompt.policy.policy import PromptedPolicy


def main(
    suite: Annotated[list[str], typer.Option(help="as in rl4co-prompt evaluate")] = ["uniform"],  # noqa: B006
    limit: Annotated[int, typer.Option(help="instances of each set")] = 100,
    weights: Annotated[str, typer.Option(help="of the backbone")] = "cvrp",
    pool: Annotated[str, typer.Option(help="prompts, .safetensors")] = OWN,
    seconds: Annotated[float, typer.Option(help="of HGS where no reference is known")] = 2.0,
) -> None:
    prompted = Solver.from_pretrained(weights, pool)
    alone = Solver.from_pretrained(weights, None)
    policy = prompted.policy
    if not isinstance(policy, PromptedPolicy):
        raise SystemExit("There are no prompts to choose from; give --pool FILE.")
    count = policy.pool.num_prompts
    rows = ["backbone", f"backbone@{count}", "random prompt", "one prompt for all"]
    rows += ["nearest key", "best in hindsight"]
    table = Table(title=f"mean gap in %, ± 95 %, {limit} instances of a set, {count} prompts")
    table.add_column("set")
    for row in rows:
        table.add_column(row, justify="right")
    sets = load_suites(suite, limit)
    for one in add_references(sets, "hgs", SolverOptions(seconds)):
        instances = list(one.instances)
        reference = np.array([instance.reference for instance in instances])
        plain = alone.solve(instances, 1, False, samples=count - 1)
        by_prompt = np.empty((len(instances), count))
        nearest = np.empty(len(instances))
        for i, solution in enumerate(prompted.solve(instances, count, False)):
            nearest[i] = solution.attempts[0].cost
            for attempt in solution.attempts:
                by_prompt[i, attempt.prompt] = attempt.cost
        best = by_prompt[:, (by_prompt / reference[:, None]).mean(0).argmin()]
        costs = [
            np.array([solution.attempts[0].cost for solution in plain]),
            np.array([min(a.cost for a in solution.attempts) for solution in plain]),
            by_prompt.mean(1),
            best,
            nearest,
            by_prompt.min(1),
        ]
        gaps = [100 * (cost / reference - 1) for cost in costs]
        table.add_row(one.label, *(f"{g.mean():.2f} ±{half_interval([g]):.2f}" for g in gaps))
    Console().print(table)
    print(f"Weights: {Path(weights).name}, prompts: {Path(pool).name}.")


if __name__ == "__main__":
    typer.run(main)
