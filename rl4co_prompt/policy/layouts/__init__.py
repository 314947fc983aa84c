"""Weights of other people's code: which layout a state dict has, and its names in ours."""

from torch import Tensor

from rl4co_prompt.policy.layouts import kool, pomo, rl4co
from rl4co_prompt.policy.layouts.names import Found, ignored
from rl4co_prompt.policy.reading import Checkpoint

__all__ = ["Found", "ignored", "read_layout"]

_READERS = {
    "POMO": (pomo.PROBE, pomo.read_pomo),
    "Kool's attention model": (kool.PROBE, kool.read_kool),
    "RL4CO": (rl4co.PROBE, rl4co.read_rl4co),
}
_WRAPPERS = ("module.", "_orig_mod.", "policy.", "model.", "actor.")


def read_layout(
    checkpoint: Checkpoint, num_heads: int | None = None, normalization: str | None = None
) -> Found:
    """Recognise a state dict by its names.

    Args:
        num_heads: where the file does not tell.
        normalization: where the file does not tell.
    """
    weights = _unwrap(checkpoint.weights)
    weights = {k: v.float() for k, v in weights.items() if not ignored(k)}
    for probe, reader in _READERS.values():
        if probe in weights:
            return reader(weights, checkpoint, num_heads, normalization)
    found = ", ".join(list(weights)[:3]) or "nothing"
    expected = ", ".join(f"{probe} ({name})" for name, (probe, _) in _READERS.items())
    raise ValueError(
        f"{checkpoint.source} has an unknown layout: it holds {found}, ...; expected one of "
        f"{expected}."
    )


def _unwrap(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights inside of DataParallel, of a compiled model or of a Lightning module."""
    for wrapper in _WRAPPERS:
        inside = {k[len(wrapper) :]: v for k, v in weights.items() if k.startswith(wrapper)}
        if inside:
            return _unwrap(inside)
    return weights
