"""Random numbers that depend on seed, instance, start and step alone, so not on chunks."""

import torch

from torch import Tensor

BITS = 23  # of a uniform number; products with a float32 then stay below that float32
_GAMMA, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def draw_seed() -> int:
    """A seed from torch's global generator, which the caller seeds."""
    return int(torch.randint(2**62, ()))


def start_states(seed: int, instances: Tensor, starts: Tensor) -> Tensor:
    """[batch], [start] -> [batch, start], the generators' states at step 0."""
    return _mix(_mix(seed + instances)[:, None] + starts)


def uniform(states: Tensor, first: int, last: int) -> Tensor:
    """Numbers in [0, 1) for the steps from ``first`` to before ``last``. -> [..., step]"""
    steps = torch.arange(first, last, device=states.device)
    bits = _mix(states[..., None] + steps)
    return _shift(bits, 64 - BITS).float() * 2.0**-BITS


def _mix(x: Tensor) -> Tensor:
    """A step of the SplitMix64 generator; int64 wraps around as uint64 does."""
    x = x + _GAMMA
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Right shift that moves zeros in."""
    return (x >> bits) & (2 ** (64 - bits) - 1)
