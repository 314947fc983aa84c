"""Where outside data lies: instance sets and weights that the package does not ship."""

import os

from pathlib import Path

VARIABLE = "RL4CO_PROMPT_DATA"
BACKBONE = "weights/amdkd_pomo_cvrp100.npz"  # AMDKD's POMO student, 64 wide, trained at n=100


def outside_data(name: str) -> Path | None:
    """A file or folder below ``$RL4CO_PROMPT_DATA``, or below ``shared/data`` beside the clone."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    path = folder / name
    return path if path.exists() else None
