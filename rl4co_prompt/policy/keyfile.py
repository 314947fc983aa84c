"""The file of keys that belongs to PromptVRP's checkpoints. No code in it runs."""

import pickletools
import re
import zipfile

from pathlib import Path
from typing import Any

import numpy as np
import torch

from torch import Tensor

from rl4co_prompt.policy.reading import UNREADABLE, load_pytorch, read_checkpoint


def read_keys(path: str | Path, width: int) -> Tensor:
    """One array of rows: .npy, .npz, .safetensors, a PyTorch file or a pickled NumPy array.

    Args:
        width: numbers per row.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No keys at {path}.")
    try:
        array = _read(path)
    except UNREADABLE as error:
        raise ValueError(
            f"{path} can't be read as keys; expected one array as .npy, .npz, .safetensors, .pt or "
            f"a pickled NumPy array ({type(error).__name__}: {error})."
        ) from None
    if array.ndim == 1 and len(array) % width == 0:
        array = array.reshape(-1, width)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{path} holds {list(array.shape)} numbers; expected rows of {width}.")
    return array.float()


def _read(path: Path) -> Tensor:
    if path.suffix == ".npy":
        return torch.from_numpy(np.load(path, allow_pickle=False))
    if path.suffix in (".npz", ".safetensors"):
        return _only(read_checkpoint(path).weights)
    if path.suffix in (".pt", ".pth") or zipfile.is_zipfile(path):
        found = load_pytorch(path)
        return found if isinstance(found, Tensor) else _only(found)
    return torch.from_numpy(array_in_pickle(path.read_bytes()))


def _only(tensors: dict[str, Tensor]) -> Tensor:
    if len(tensors) != 1:
        raise ValueError(f"it has {len(tensors)} arrays instead of one")
    return next(iter(tensors.values()))


def array_in_pickle(data: bytes) -> np.ndarray:
    """The numbers of a pickled NumPy array, from a listing of the pickle; it is not unpickled."""
    listing = [(op.name, value) for op, value, _ in pickletools.genops(data)]
    if not any("numpy" in str(value) for _, value in listing):
        raise ValueError("it is no pickled NumPy array")
    sizes = [len(v) if isinstance(v, str | bytes | bytearray) else 0 for _, v in listing]
    place = int(np.argmax(sizes))
    numbers: Any = listing[place][1]
    numbers = numbers.encode("latin1") if isinstance(numbers, str) else bytes(numbers)
    texts = [value for _, value in listing if isinstance(value, str)]
    kind = next((text for text in texts if re.fullmatch("[<|]?f[48]", text)), None)
    shape = _shape(listing)
    if kind is None or ">" in texts or not shape:
        raise ValueError("it is no pickled array of floats")
    flags = [name for name, _ in listing[:place] if name in ("NEWTRUE", "NEWFALSE")]
    by_columns = "F" in texts or flags[-1:] == ["NEWTRUE"]
    array = np.frombuffer(numbers, kind).reshape(shape, order="F" if by_columns else "C")
    return array.copy()


def _shape(listing: list[tuple[str, Any]]) -> tuple[int, ...]:
    """The first pair of whole numbers."""
    for i, (name, _) in enumerate(listing):
        before = [v for n, v in listing[max(0, i - 4) : i] if n.startswith("BININT")]
        if name == "TUPLE2" and len(before) >= 2:
            return tuple(before[-2:])
    return ()
