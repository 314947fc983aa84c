"""How many instances and starts fit into a memory budget at once."""

import torch

from rl4co.models.zoo.am.decoder import AttentionModelDecoder
from tensordict import TensorDict

from rl4co_prompt.rollout.contexts import takes_grid

MEGABYTE = 2**20
CPU_MEGABYTES = 1024


def budget_bytes(megabytes: float | None, device: torch.device) -> float:
    """The budget; by default 1 GB on the CPU and half of a GPU's free memory."""
    if megabytes is not None:
        return megabytes * MEGABYTE
    if device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.mem_get_info(device)[0] / 2
    return CPU_MEGABYTES * MEGABYTE


def chunk_sizes(
    batch: int, starts: int, per_instance: float, per_start: float, budget: float
) -> tuple[int, int]:
    """Instances and starts at once: whole instances if one fits, else part of its starts."""
    least = per_instance + per_start
    if least > budget:
        raise MemoryError(
            f"A memory budget of {budget / MEGABYTE:.3g} MB is too small for a single rollout, "
            f"which takes about {least / MEGABYTE:.3g} MB; raise memory_budget."
        )
    instances = int(budget // (per_instance + starts * per_start))
    if instances >= 1:
        return min(instances, batch), starts
    return 1, max(1, int((budget - per_instance) // per_start))


def starts_at_once(
    batch: int, starts: int, per_instance: float, per_start: float, budget: float
) -> int:
    """Starts of all instances of a batch that fit together, at least one."""
    if batch == 1:
        return chunk_sizes(1, starts, per_instance, per_start, budget)[1]
    return max(1, min(starts, int((budget / batch - per_instance) // per_start)))


def rollout_bytes(
    decoder: AttentionModelDecoder, td: TensorDict, engine: str
) -> tuple[float, float]:
    """What a rollout allocates per instance and per start."""
    nodes, width = td["action_mask"].shape[-1], decoder.embed_dim
    tour = 2 * nodes * (8 + 4 + 24)  # actions, log-probabilities, coordinates in order
    state = 4 * (8 * nodes + 8 * width)
    if engine == "lean":
        return 4 * 12 * nodes * width, tour + state
    copied = 4 if decoder.is_dynamic_embedding else 0 if takes_grid(decoder, len(td), 2) else 1
    copies = 4 * copied * nodes * width
    data = 3 * td.bytes() / max(1, len(td))
    return 4 * 6 * nodes * width, tour + state + data + copies


def encoder_bytes(decoder: AttentionModelDecoder, td: TensorDict) -> float:
    """What the encoder allocates per instance without a graph."""
    nodes, width = td["action_mask"].shape[-1], decoder.embed_dim
    return 4 * nodes * (32 * width + decoder.num_heads * nodes)
