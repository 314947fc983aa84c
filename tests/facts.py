"""What holds for each of RL4CO's problems: the tests assert it, the docs print it.

python -m tests.facts > docs/problems.md
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rl4co.envs import get_env

from rl4co_prompt.tasks.task import PROBLEMS

SIZE, OTHER = 10, 12  # customers


@dataclass(frozen=True)
class Fact:
    """A problem that prompts work on.

    Args:
        name: RL4CO's.
        starts: of rollouts, in words; ``samples`` where there are none.
        nodes: the same for a reset instance of :data:`SIZE` customers; None: those that its mask
            allows, without the depot.
        params: of RL4CO's generator, by the number of customers.
        turns: whether instances have symmetry copies.
        notes: what RL4CO does otherwise, or what else to know.
    """

    name: str
    starts: str = "every customer"
    nodes: range | None = range(1, SIZE + 1)
    params: Callable[[int], dict[str, Any]] = field(default=lambda n: {"num_loc": n})
    turns: bool = True
    notes: str = ""

    @property
    def tasks(self) -> bool:
        return self.name in PROBLEMS

    def env(self, size: int = SIZE, **options: Any) -> Any:
        return get_env(self.name, generator_params=self.params(size), seed=0, **options)


FACTS = (
    Fact("cvrp", notes="The method's own; lean engine."),
    Fact("cvrpmvc", notes="RL4CO starts at customer 1 twice."),
    Fact(
        "cvrptw", notes="Its square has a side of 150, in which the copies stay; RL4CO's leave it."
    ),
    Fact(
        "flp",
        "every location",
        range(SIZE),
        lambda n: {"num_loc": n, "to_choose": 4},
        notes="RL4CO's loop has starts for a batch of one only.",
    ),
    Fact(
        "mcp",
        "every set",
        range(60),
        lambda n: {"num_sets": 50 + n, "num_items": 80, "n_sets_to_choose": 4},
        turns=False,
        notes="RL4CO's loop has no starts. No locations, so no copies.",
    ),
    Fact(
        "mdcpdp",
        "every depot",
        range(5),
        notes="RL4CO also starts at customers, which no vehicle can.",
    ),
    Fact(
        "mtsp",
        params=lambda n: {"num_loc": n + 1},
        notes="RL4CO's loop has no starts and no batch of one; its sizes count the depot, and its "
        'cost_type="sum" fails.',
    ),
    Fact(
        "mtvrp",
        params=lambda n: {"num_loc": n, "variant_preset": "all"},
        notes="RL4CO starts at customer 1 twice, and draws locations uniformly whatever is asked.",
    ),
    Fact(
        "op",
        "customers that the length allows",
        None,
        notes="RL4CO draws them with repetition where they are few.",
    ),
    Fact("pctsp"),
    Fact("pdp", "every pickup", range(1, SIZE // 2 + 1), notes="An even number of customers."),
    Fact("sdvrp", notes="Keys and values follow the demand left, so each rollout has its own."),
    Fact("shpp", "samples", range(0), notes="The first node is given. RL4CO's starts run over it."),
    Fact(
        "smtwtp",
        "every job",
        params=lambda n: {"num_job": n},
        turns=False,
        notes="RL4CO's starts run over the last job. No locations, so no copies.",
    ),
    Fact("spctsp", notes="Prizes are random."),
    Fact(
        "svrp",
        "customers that the first technician can serve",
        None,
        notes="RL4CO starts at the others, too; where there is none, at the depot.",
    ),
    Fact("tsp", "every node", range(SIZE), notes="Lean engine."),
)

UNABLE = {
    "atsp": "RL4CO's attention policy reads locations, which it has not; MatNet is another net.",
    "dpp": "Not tested: RL4CO loads its data from the network.",
    "ffsp": "No embedding for RL4CO's attention policy.",
    "fjsp": "No embedding for RL4CO's attention policy.",
    "jssp": "No embedding for RL4CO's attention policy.",
    "mdpp": "Not tested: RL4CO loads its data from the network.",
    "pdp_ruin_repair": "Improves solutions; there is no attention policy for it.",
    "tsp_kopt": "Improves solutions; there is no attention policy for it.",
}

HEAD = """# Problems

`PromptedPolicy` and `PromptPOMO` on RL4CO's problems. Each line of the first table is what
`tests/training/test_problems.py` asserts with a small net: tours with one rollout and with several,
a training step that moves the prompts alone, a saved pool that gives the same tours, a batch of
one, two sizes with one environment. `python -m tests.facts > docs/problems.md` writes this page.

* **starts**: where the rollouts of an instance begin, found from its reset mask
  (`rl4co_prompt/rollout/starts.py`), by `PromptedPolicy` whoever calls it. An instance
  with fewer starts than others of its batch takes its own in turn. *samples*: the policy draws the
  first node, too, as many tours as there are nodes, and their mean is the baseline;
  `PromptPOMO(rollouts="samples")` does so on any problem.
* **copies**: the eight symmetries of the square in validation and test.
* **tasks**: `task_env("NAME:50-cluster")` draws instances on any of our maps, and a schedule may
  change size and map.
"""


def page() -> str:
    """The text of docs/problems.md."""
    rows = ["| problem | works | starts | copies | tasks | notes |", "|---|---|---|---|---|---|"]
    for fact in FACTS:
        copies, tasks = ("yes" if x else "" for x in (fact.turns, fact.tasks))
        rows.append(f"| {fact.name} | yes | {fact.starts} | {copies} | {tasks} | {fact.notes} |")
    rest = ["| problem | works | why |", "|---|---|---|"]
    rest += [f"| {name} | no | {why} |" for name, why in UNABLE.items()]
    return "\n".join((HEAD, *rows, "", *rest, ""))


if __name__ == "__main__":
    print(page(), end="")
