"""Hydra plugin: any Hydra app of this environment finds our configs, RL4CO's ``run.py`` too.

Every Hydra app imports this file at its start, so it imports nothing heavy. The wheel installs
it as ``hydra_plugins.rl4co_prompt_searchpath``.
"""

from importlib.util import find_spec
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


def config_dir() -> Path:
    """Our config tree: beside the package in a clone, inside it when installed."""
    spec = find_spec("rl4co_prompt")
    if spec is None or spec.origin is None:
        raise ImportError("rl4co_prompt is not installed; run pip install rl4co-prompt.")
    package = Path(spec.origin).parent
    clone = package.parent / "configs"
    return clone if (clone / "experiment" / "prompt").is_dir() else package / "configs"


class PromptSearchPath(SearchPathPlugin):
    """Appends our configs, so that an app's own come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="rl4co_prompt", path=f"file://{config_dir()}")
