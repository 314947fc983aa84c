"""What other weights, prompts or gates change: cost beside a first model's on the same instances.

python benchmarks/changes.py cvrp new.safetensors --task 50-uniform --task 100-uniform --count 96
python benchmarks/changes.py cvrp cvrp+pool.safetensors cvrp+pool.safetensors*3 --prompts 8

A model is a backbone, or a backbone and its prompts, with a number that their gates are multiplied
by. Prints changes in percent with 95 % interval: of the mean over the eight symmetries and the
nearest prompts, and of the best of them.
"""

from typing import Annotated

import numpy as np
import typer

from rich.console import Console
from rich.table import Table

from rl4co_prompt import Solver
from rl4co_prompt.evaluation.evaluate import half_interval
from rl4co_prompt.evaluation.suites import load_suites
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.tasks.instance import Instance

TASKS = ["50-uniform", "100-uniform", "200-uniform"]


def main(
    models: Annotated[list[str], typer.Argument(metavar="WEIGHTS[+POOL[*GATE]]...")],
    task: Annotated[list[str], typer.Option(help="whose instances are generated")] = TASKS,
    count: Annotated[int, typer.Option(min=2, help="instances of each task")] = 48,
    seed: Annotated[int, typer.Option(help="of the instances")] = 7,
    prompts: Annotated[int, typer.Option(min=1, help="nearest prompts of each copy")] = 1,
) -> None:
    if len(models) < 2:
        raise SystemExit("There is nothing to compare; give two models or more.")
    solvers = [solver(model) for model in models]
    table = Table(title=f"change of cost in %, ± 95 %, {count} instances of seed {seed}")
    for column in ("task", "model"):
        table.add_column(column, overflow="fold")
    for column in ("mean", "best"):
        table.add_column(column, justify="right")
    for instances in load_suites(task, count, seed):
        found = [costs(one, list(instances.instances), prompts) for one in solvers]
        for model, own in zip(models[1:], found[1:], strict=True):
            changes = 100 * (own / found[0] - 1)
            cells = [f"{c.mean():+.2f} ±{half_interval([c]):.2f}" for c in changes.T]
            table.add_row(instances.label, model, *cells)
    Console().print(table)
    print(f"Compared with {models[0]}.")


def solver(model: str) -> Solver:
    weights, _, prompts = model.partition("+")
    pool, _, gate = prompts.partition("*")
    made = Solver.from_pretrained(weights, pool or None)
    if gate:
        if not isinstance(made.policy, PromptedPolicy) or made.policy.pool.gate is None:
            raise SystemExit(f"The prompts of {model} have no gates.")
        made.policy.pool.gate.data *= float(gate)
    return made


def costs(solver: Solver, instances: list[Instance], prompts: int) -> np.ndarray:
    """Mean and best cost over an instance's greedy passes, [instance, 2]."""
    solutions = solver.solve(instances, prompts, augment=True)
    passes = [[a.cost for a in s.attempts if a.method == "greedy"] for s in solutions]
    return np.array([[np.mean(found), np.min(found)] for found in passes])


if __name__ == "__main__":
    typer.run(main)
