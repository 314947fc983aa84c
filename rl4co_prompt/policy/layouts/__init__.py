"""Weights of other people's code: which layout a state dict has, and its names in ours."""

from dataclasses import replace

import torch

from torch import Tensor

from rl4co_prompt.policy.layouts import kool, pomo, rl4co
from rl4co_prompt.policy.layouts.names import GUESSED, Found, ignored
from rl4co_prompt.policy.reading import Checkpoint

__all__ = ["Found", "ignored", "read_layout"]

_READERS = {
    "POMO": (pomo.PROBE, pomo.read_pomo),
    "Kool's attention model": (kool.PROBE, kool.read_kool),
    "RL4CO": (rl4co.PROBE, rl4co.read_rl4co),
}
_WRAPPERS = ("module.", "_orig_mod.", "policy.", "model.", "actor.")


def read_layout(
    checkpoint: Checkpoint,
    num_heads: int | None = None,
    normalization: str | None = None,
    problem: str | None = None,
) -> Found:
    """Recognise a state dict by its names.

    Args:
        num_heads: where the file does not tell.
        normalization: where the file does not tell.
        problem: of RL4CO's and Kool's weights, where problems look the same.
    """
    weights = {k: v for k, v in _unwrap(checkpoint.weights).items() if not ignored(k)}
    # A part that was compiled has its name inside.
    weights = {k.replace("._orig_mod.", "."): v for k, v in weights.items()}
    for name, (probe, reader) in _READERS.items():
        if probe in weights:
            _check_numbers(weights, checkpoint.source)
            weights = {k: v.float() for k, v in weights.items()}
            try:
                found = reader(weights, checkpoint, num_heads, normalization)
            except RuntimeError:
                raise ValueError(
                    f"{checkpoint.source} has the names of {name} in shapes that do not fit "
                    "together."
                ) from None
            return found if problem is None else _for(found, problem, checkpoint.source)
    held = ", ".join(list(weights)[:3]) or "nothing"
    expected = ", ".join(f"{probe} ({name})" for name, (probe, _) in _READERS.items())
    raise ValueError(
        f"{checkpoint.source} has an unknown layout: it holds {held}, ...; expected one of "
        f"{expected}."
    )


def _unwrap(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights inside of DataParallel or of a Lightning module, or below one other name."""
    for wrapper in _WRAPPERS:
        inside = {k[len(wrapper) :]: v for k, v in weights.items() if k.startswith(wrapper)}
        if inside:
            return _unwrap(inside)
    for probe, _ in _READERS.values():
        prefixes = [name[: -len(probe)] for name in weights if name.endswith(f".{probe}")]
        if probe not in weights and len(prefixes) == 1:
            (start,) = prefixes
            return {k[len(start) :]: v for k, v in weights.items() if k.startswith(start)}
    return weights


def _for(found: Found, problem: str, source: str) -> Found:
    """The same weights for a problem that the user names."""
    told = found.config["env_name"]
    guessed = any(text.startswith(GUESSED) for text in found.assumed)
    if problem != told and not guessed:
        raise ValueError(f"{source} is {found.layout} for {told}, not for {problem}.")
    assumed = [text for text in found.assumed if not text.startswith(GUESSED)]
    return replace(found, config=found.config | {"env_name": problem}, assumed=assumed)


def _check_numbers(weights: dict[str, Tensor], source: str) -> None:
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            raise ValueError(
                f"{source} has {name} as {tensor.dtype}, {tensor.layout}; expected dense floats."
            )
