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
    """The weights of a name; None if it is not one of ours, or that of a file."""
    if str(name) not in NAMES or Path(name).is_file():
        return None
    pool = _FOLDER / f"{name}-prompts.safetensors"
    return Weights(_FOLDER / f"{name}.safetensors", pool if pool.is_file() else None)


def backbone_file(path: str | Path) -> Path:
    """A file of weights from itself or its name; an error if there is none."""
    found = find(path)
    return _existing("backbone weights", path, found.backbone if found else None)


def pool_file(path: str | Path) -> Path:
    """A file of prompts from itself or the name of its backbone; an error if there is none."""
    found = find(path)
    return _existing("prompt pool", path, found.pool if found else None)


def _existing(what: str, path: str | Path, shipped: Path | None) -> Path:
    file = Path(path) if shipped is None else shipped
    if not file.is_file():
        names = " or ".join(NAMES)
        raise FileNotFoundError(f"No {what} at {path}; give a file, or the name {names}.")
    return file
