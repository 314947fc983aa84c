"""Make ``get_env("multi_cvrp")`` work without importing RL4CO before the user does."""

import sys

from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

REGISTRY_MODULE = "rl4co.envs"


class _RegisterAfterImport(MetaPathFinder):
    """Finds ``rl4co.envs`` as Python would, and adds our environments once it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != REGISTRY_MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._then_register(spec.loader.exec_module)  # type: ignore[method-assign]
        return spec

    def _then_register(self, exec_module: Any) -> Any:
        def run(module: ModuleType) -> None:
            torch = import_module("torch")
            threads = torch.get_num_threads()
            exec_module(module)
            # A loop that RL4CO compiles has numba set OpenMP to all cores, whatever the user set.
            torch.set_num_threads(threads)
            module.ENV_REGISTRY.update(_ENVIRONMENTS)
            sys.meta_path.remove(self)

        return run


def _multi_cvrp(*args: Any, **options: Any) -> Any:
    return import_module("rl4co_prompt.tasks.env").MultiTaskCVRPEnv(*args, **options)


def _multi_task(*args: Any, **options: Any) -> Any:
    return import_module("rl4co_prompt.tasks.problems").task_env(*args, **options)


_ENVIRONMENTS = {"multi_cvrp": _multi_cvrp, "multi_task": _multi_task}


def register_with_rl4co() -> None:
    """Register now if RL4CO's environments are loaded, else right after they are."""
    if REGISTRY_MODULE in sys.modules:
        sys.modules[REGISTRY_MODULE].ENV_REGISTRY.update(_ENVIRONMENTS)
    elif not any(isinstance(finder, _RegisterAfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterAfterImport())
