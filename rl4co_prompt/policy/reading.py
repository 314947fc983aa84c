"""Files of weights: names, tensors and what is beside them. No code in them runs."""

import pickle
import re
import warnings
import zipfile

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from safetensors import SafetensorError, safe_open
from torch import Tensor

from rl4co_prompt import zoo

_NESTS = ("model_state_dict", "state_dict", "model", "policy", "actor")
UNREADABLE = (
    SafetensorError,
    OSError,
    ValueError,
    RuntimeError,
    EOFError,
    TypeError,
    AttributeError,
    LookupError,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
)


@dataclass(frozen=True)
class Checkpoint:
    """A file of weights.

    Args:
        weights: by their names in the file.
        metadata: of a .safetensors file.
        beside: other entries of a PyTorch file.
        path: of the file.
    """

    weights: dict[str, Tensor]
    metadata: dict[str, str] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None

    @property
    def source(self) -> str:
        return "The state dict" if self.path is None else str(self.path)


class Inert:
    """Stands in for an object that a pickle names: keeps the object's state and does nothing."""

    def __new__(cls, *_: Any, **__: Any) -> "Inert":
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update({str(name): value for name, value in part.items()})


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read .safetensors, .npz, or a PyTorch file under ``weights_only=True``."""
    path = zoo.backbone_file(path)
    try:
        if _is_safetensors(path):
            with safe_open(path, framework="pt") as file:
                tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
                return Checkpoint(tensors, file.metadata() or {}, path=path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return Checkpoint({k: torch.from_numpy(arrays[k]) for k in arrays.files}, path=path)
        state = load_pytorch(path)
    except UNREADABLE as error:
        module = "persistent_load" in str(error)
        remedy = "; it holds a whole module: save its state dict alone" if module else ""
        raise ValueError(
            f"{path} can't be read as weights; expected .safetensors, .npz or a PyTorch file that "
            f"loads with weights_only=True ({type(error).__name__}){remedy}."
        ) from None
    weights = _state_dict(state)
    if weights is None:
        entries = ", ".join(map(str, list(state)[:5])) if isinstance(state, dict) else ""
        raise ValueError(
            f"{path} holds no state dict that loads with weights_only=True but a "
            f"{type(state).__name__}; its entries are: {entries or 'none'}; expected names and "
            f"tensors, maybe below one of {', '.join(_NESTS)}."
        )
    return Checkpoint(weights, beside=state if isinstance(state, dict) else {}, path=path)


def load_pytorch(path: Path) -> Any:
    """A PyTorch file; objects of classes that weights have no need of are inert."""
    inert: dict[str, Callable] = {}
    while True:
        pairs = [(stand_in, name) for name, stand_in in inert.items()]
        try:
            with torch.serialization.safe_globals(pairs), warnings.catch_warnings():  # type: ignore[arg-type]
                warnings.simplefilter("ignore")  # PyTorch's, about the age of the file
                return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            names = set(_refused(path, error)) - inert.keys()
            filled = _filled(inert, error)
            if not names and not filled:
                raise
        inert |= {name: _stand_in(name) for name in names} | filled


def _refused(path: Path, error: pickle.UnpicklingError) -> list[str]:
    """Classes that a file names; one of before PyTorch 1.6 has them told one at a time."""
    if zipfile.is_zipfile(path):
        return torch.serialization.get_unsafe_globals_in_checkpoint(path)
    return re.findall(r"GLOBAL (\S+) was not an allowed global", str(error))


def _stand_in(name: str) -> type[Inert]:
    return type(name.rpartition(".")[2], (Inert,), {"__module__": name.rpartition(".")[0]})


def _filled(inert: dict[str, Callable], error: pickle.UnpicklingError) -> dict[str, Callable]:
    """For a class that a file fills item by item, which only dict and list allow, one of these."""
    found = re.search(r"Can only (SETITEM|append|extend).*got <class '(.+)'>", str(error))
    if found is None or found[2] not in inert:
        return {}
    kind = OrderedDict if found[1] == "SETITEM" else list
    return {found[2]: type(kind.__name__, (), {"__new__": lambda *_, **__: kind()})}


def _is_safetensors(path: Path) -> bool:
    """By the name, or by the header's first character."""
    if path.suffix == ".safetensors":
        return True
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _state_dict(found: Any) -> dict[str, Tensor] | None:
    """The first names and tensors in nested entries; those of a pickled module, too."""
    if isinstance(found, Inert):
        found = _module_tensors(found)
    if not isinstance(found, dict):
        return None
    tensors = {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, Tensor)}
    if any("." in name for name in tensors):
        return tensors
    known = [found[name] for name in _NESTS if name in found]
    others = [v for k, v in found.items() if k not in _NESTS and isinstance(v, dict)]
    inside = map(_state_dict, known + others)
    return next((weights for weights in inside if weights), None)


def _module_tensors(module: Inert) -> dict[str, Tensor]:
    """The state dict of a module that was pickled whole."""
    parts = [vars(module).get(part) or {} for part in ("_parameters", "_buffers")]
    tensors = {k: v for part in parts for k, v in part.items() if isinstance(v, Tensor)}
    for name, child in (vars(module).get("_modules") or {}).items():
        if isinstance(child, Inert):
            tensors |= {f"{name}.{k}": v for k, v in _module_tensors(child).items()}
    return tensors
