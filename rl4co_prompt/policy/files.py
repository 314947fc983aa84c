"""Writing weights so that an interrupted run leaves no half file."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from rl4co_prompt.tasks.files import check_free, check_output, write_bytes


def check_suffix(path: Path) -> None:
    """Raise a one-sentence error unless the name ends in .safetensors."""
    if path.suffix != ".safetensors":
        raise ValueError(f"{path} must end in .safetensors.")


def check_new(path: Path, force: bool = False) -> None:
    """Raise a one-sentence error unless a new .safetensors file can be written there."""
    check_suffix(path)
    check_output(path)
    check_free([path], force)


def in_half(tensors: Mapping[str, Tensor], wanted: bool = True) -> dict[str, Tensor]:
    """Floating-point tensors in half precision."""
    return {k: v.half() if wanted and v.is_floating_point() else v for k, v in tensors.items()}


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]
) -> Path:
    """Write a .safetensors file."""
    path = Path(path)
    check_suffix(path)
    data = save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, metadata)
    return write_bytes(path, data)
