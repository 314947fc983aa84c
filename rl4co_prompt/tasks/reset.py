"""Reset instances of any size, and leave them as they are."""

from typing import Any

from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict

# RL4CO's reset goes by this attribute of the generator, not by the data: (key, rows beyond it).
_BY_GENERATOR = {
    "mtsp": ("num_loc", "locs", 0),
    "pctsp": ("num_loc", "locs", 0),
    "pdp": ("num_loc", "locs", 0),
    "smtwtp": ("num_job", "job_due_time", 1),
    "spctsp": ("num_loc", "locs", 0),
}


class _Sized:
    """A generator that tells another size."""

    def __init__(self, generator: Any, **size: int):
        self.generator = generator
        vars(self).update(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator, name)


def reset(env: RL4COEnvBase, instances: TensorDict) -> TensorDict:
    """RL4CO's reset, for instances of any size; TorchRL merges the result into a copy."""
    td = instances.copy()
    if td.device is None:
        td = td.to(next(iter(td.values())).device)  # where RL4CO makes the rest of the state
    if env.name not in _BY_GENERATOR:
        return env.reset(td)
    attribute, key, more = _BY_GENERATOR[env.name]
    generator = env.generator
    env.generator = _Sized(generator, **{attribute: td[key].shape[1] - more})
    try:
        return env.reset(td)
    finally:
        env.generator = generator
