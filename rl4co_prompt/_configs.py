"""Where the config tree lies; imports nothing heavy."""

from pathlib import Path


def config_dir() -> Path:
    """Beside the package in a clone, inside it when installed from a wheel."""
    package = Path(__file__).resolve().parent
    clone = package.parent / "configs"
    return clone if (clone / "experiment" / "prompt").is_dir() else package / "configs"
