"""The weights that ship, by name: a backbone, its prompts, and a model card for each."""

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
NAMES = ("cvrp",)


@dataclass(frozen=True)
class Weights:
    """Files of one name.

    Args:
        backbone: of :func:`rl4co_prompt.load_backbone`.
        pool: of :meth:`rl4co_prompt.PromptPool.load`; None where no prompts ship.
    """

    backbone: Path
    pool: Path | None


def find(name: str | Path) -> Weights | None:
    """The weights of a name; None if it is not one of ours."""
    if str(name) not in NAMES:
        return None
    pool = _FOLDER / f"{name}-prompts.safetensors"
    return Weights(_FOLDER / f"{name}.safetensors", pool if pool.is_file() else None)
