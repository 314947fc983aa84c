"""The eight symmetries of the square that an environment's locations lie in."""

from rl4co.data.transforms import dihedral_8_augmentation
from rl4co.envs import RL4COEnvBase
from torch import Tensor


class Symmetries:
    """RL4CO's ``augment_fn`` for locations in any square, not only the unit square.

    Args:
        low, high: least and largest coordinate.
    """

    def __init__(self, low: float = 0.0, high: float = 1.0):
        self.low, self.high = low, high

    def __call__(self, xy: Tensor, num_augment: int = 8) -> Tensor:
        """Eight equal parts, [8 * batch, node, 2] -> the eight copies of the first"""
        first = xy[: len(xy) // num_augment]
        if (self.low, self.high) == (0.0, 1.0):
            return dihedral_8_augmentation(first)
        size = self.high - self.low
        return self.low + size * dihedral_8_augmentation((first - self.low) / size)


def square_of(env: RL4COEnvBase) -> tuple[float, float]:
    """Least and largest coordinate of the instances that an environment's generator draws."""
    generator = env.generator
    low, high = getattr(generator, "min_loc", 0.0), getattr(generator, "max_loc", 1.0)
    if getattr(generator, "scale", False):  # CVRPTW's unit is then the last time
        return low / generator.max_time, high / generator.max_time
    return low, high
