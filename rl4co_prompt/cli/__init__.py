"""``rl4co-prompt``: thin commands over the package. Heavy imports wait until they are needed."""

import sys

from rl4co_prompt.cli import data, evaluate, grow, pools, solve, weights
from rl4co_prompt.cli.app import app

__all__ = ["app", "data", "evaluate", "grow", "main", "pools", "solve", "weights"]


def main() -> None:
    """The program."""
    # RL4CO compiles TSP's local search at import, for seconds; no command here needs it.
    sys.modules["rl4co.envs.routing.tsp.local_search"] = None  # type: ignore[assignment]
    app()
