"""Writing weights so that an interrupted run leaves no half file."""

import os
import tempfile

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor


def check_suffix(path: Path) -> None:
    """Raise a one-sentence error unless the name ends in .safetensors."""
    if path.suffix != ".safetensors":
        raise ValueError(f"{path} must end in .safetensors.")


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]
) -> Path:
    """Write a .safetensors file to a temporary name beside it, then rename."""
    path = Path(path)
    check_suffix(path)
    data = save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
