"""RL4CO's rows, (start batch), and joining results that were computed in parts."""

import torch
import torch.nn.functional as F

from torch import Tensor


def start_major(x: Tensor) -> Tensor:
    """[batch, start, ...] -> [start * batch, ...]"""
    return x.transpose(0, 1).flatten(0, 1)


def join_starts(parts: list[Tensor]) -> Tensor:
    """[batch, start, ...] of successive starts; shorter tours are filled up with 0."""
    steps = max(part.shape[-1] for part in parts)
    return torch.cat([_fill_up(part, steps) for part in parts], 1)


def join_parts(parts: list[dict], batch: int) -> dict:
    """RL4CO's dictionaries of successive instances, ``batch`` in all, as one."""
    if len(parts) == 1:
        return parts[0]
    rollouts = sum(len(part["reward"]) for part in parts) // batch
    sizes = [len(part["reward"]) // rollouts for part in parts]
    joined = {}
    for key, value in parts[0].items():
        values = [part[key] for part in parts]
        if value.ndim == 2 and key != "init_embeds":  # by step
            steps = max(x.shape[1] for x in values)
            values = [_fill_up(x, steps) for x in values]
        grids = [
            x.view(len(x) // size, size, *x.shape[1:])
            for x, size in zip(values, sizes, strict=True)
        ]
        joined[key] = torch.cat(grids, 1).flatten(0, 1)
    return joined


def _fill_up(x: Tensor, steps: int) -> Tensor:
    return F.pad(x, (0, steps - x.shape[-1]))
