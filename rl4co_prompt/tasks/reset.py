"""Reset instances of any size, and leave them as they are."""

from typing import Any

from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict

_BY_GENERATOR = ("mtsp", "pctsp", "pdp", "spctsp")  # RL4CO's reset goes by the generator's size


class _Sized:
    """A generator that tells another size."""

    def __init__(self, generator: Any, num_loc: int):
        self.generator, self.num_loc = generator, num_loc

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator, name)


def reset(env: RL4COEnvBase, instances: TensorDict) -> TensorDict:
    """RL4CO's reset, for instances of any size; TorchRL merges the result into a copy."""
    td = instances.copy()
    if td.device is None:
        td = td.to(next(iter(td.values())).device)  # where RL4CO makes the rest of the state
    if env.name not in _BY_GENERATOR:
        return env.reset(td)
    generator = env.generator
    env.generator = _Sized(generator, td["locs"].shape[-2])
    try:
        return env.reset(td)
    finally:
        env.generator = generator
