"""A state dict on its way from the names of one layout to ours."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

# Belong to the losses of AMDKD or SymNCO, or count batches; no part of the forward pass.
IGNORED = {"W_hidden", "W_embed", "projection_head", "num_batches_tracked"}
GUESSED = "The problem"  # begins a sentence of what was assumed
HEADS = 8  # of every published model
INSTANCE_NORM = (
    "Instance norm, as there are no running statistics; files of Omni-VRP with batch_no_track "
    "look the same."
)


@dataclass
class Found:
    """A state dict in our names.

    Args:
        layout: where it comes from.
        policy: name of the class that it is for.
        config: of the class.
        weights: by the class's names.
        assumed: what the file does not tell, a sentence each.
        prompts: [prompt, layer, token, embed] (PromptVRP).
        keys: [prompt, feature] (PromptVRP).
    """

    layout: str
    policy: str
    config: dict[str, Any]
    weights: dict[str, Tensor]
    assumed: list[str] = field(default_factory=list)
    prompts: Tensor | None = None
    keys: Tensor | None = None


@dataclass
class Renaming:
    """A state dict on its way from old names to new ones."""

    old: dict[str, Tensor]
    source: str
    new: dict[str, Tensor] = field(default_factory=dict)

    def look(self, name: str) -> Tensor:
        if name not in self.old:
            raise ValueError(f"{self.source} lacks {name}; the file is incomplete.")
        return self.old[name]

    def shape(self, name: str, dims: int) -> tuple[int, ...]:
        """The shape of a weight that has so many dimensions."""
        shape = tuple(self.look(name).shape)
        if len(shape) != dims:
            raise ValueError(f"{self.source} has {name} as {list(shape)}; expected {dims} sizes.")
        return shape

    def take(self, *names: str) -> list[Tensor]:
        missing = [name for name in names if name not in self.old]
        if missing:
            raise ValueError(f"{self.source} lacks {', '.join(missing)}; the file is incomplete.")
        return [self.old.pop(name) for name in names]

    def move(self, old: str, new: str) -> None:
        """All weights of a module, as many as there are."""
        for name in [name for name in self.old if name.startswith(f"{old}.")]:
            self.new[new + name[len(old) :]] = self.old.pop(name)

    def done(self, model: str) -> dict[str, Tensor]:
        if self.old:
            raise ValueError(
                f"{self.source} holds weights that {model} does not have: "
                f"{', '.join(list(self.old)[:3])}."
            )
        return self.new


def ignored(name: str) -> bool:
    """Whether a tensor has no part in the forward pass."""
    return not IGNORED.isdisjoint(name.split("."))


def rename(weights: dict[str, Tensor], names: tuple[tuple[str, str], ...]) -> dict[str, Tensor]:
    """Replace parts of names."""
    renamed = {}
    for name, tensor in weights.items():
        for old, new in names:
            name = name.replace(old, new)
        renamed[name] = tensor
    return renamed


def depth(weights: dict[str, Tensor], prefix: str) -> int:
    """How many layers there are below a prefix."""
    below = [name[len(prefix) :].partition(".")[0] for name in weights if name.startswith(prefix)]
    return 1 + max(int(number) for number in below if number.isdecimal())


def norm_kind(weights: dict[str, Tensor], given: str | None, source: str) -> str:
    """The kind of norm by its running statistics, or as given where there are none."""
    if not any(name.endswith("running_mean") for name in weights):
        if given == "batch":
            raise ValueError(
                f"{source} has no running statistics, so that its normalization is instance or "
                "batch_no_track, not batch."
            )
        return given or "instance"
    if given not in (None, "batch"):
        raise ValueError(
            f"{source} has running statistics, so that its normalization is batch, not {given}."
        )
    return "batch"
