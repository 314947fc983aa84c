"""Hydra plugin: any Hydra app of this environment finds our configs, RL4CO's ``run.py`` too.

Every Hydra app imports this file at its start, so it imports nothing heavy. The wheel installs
it, under the name ``hydra_plugins.rl4co_prompt_searchpath`` only.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from rl4co_prompt._configs import config_dir


class PromptSearchPath(SearchPathPlugin):
    """Appends our configs, so that an app's own come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="rl4co_prompt", path=f"file://{config_dir()}")
