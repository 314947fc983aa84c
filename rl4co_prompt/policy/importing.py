"""Outside weights as files of ours, with a card that says where they come from."""

import hashlib

from dataclasses import dataclass
from pathlib import Path

import torch

from torch import Tensor

from rl4co_prompt import __version__
from rl4co_prompt.policy.backbone import (
    Backbone,
    fingerprint,
    policy_from,
    recognise,
    save_backbone,
)
from rl4co_prompt.policy.keyfile import read_keys
from rl4co_prompt.policy.layouts import Found
from rl4co_prompt.policy.pool import Keys, PromptPool
from rl4co_prompt.policy.reading import read_checkpoint
from rl4co_prompt.tasks.files import check_free, check_output, write_text


@dataclass(frozen=True)
class Imported:
    """What an import wrote.

    Args:
        layout: that was recognised.
        backbone, card: files.
        pool: file of the prompts (PromptVRP).
        config: of the backbone.
        assumed: what the file did not tell.
    """

    layout: str
    backbone: Path
    card: Path
    pool: Path | None
    config: dict
    assumed: list[str]


def import_weights(
    file: str | Path,
    folder: str | Path,
    name: str | None = None,
    *,
    num_heads: int | None = None,
    normalization: str | None = None,
    problem: str | None = None,
    keys: str | Path | None = None,
    force: bool = False,
) -> Imported:
    """Write a backbone, its prompts if it has some, and a card.

    Args:
        file: weights in any layout of :mod:`rl4co_prompt.policy.layouts`.
        folder: of the new files.
        name: of the new files; by default the old one.
        num_heads, normalization: where the file does not tell.
        problem: of RL4CO's and Kool's weights, where problems look the same, as cvrp and op do.
        keys: file of PromptVRP's keys.
        force: write over files.
    """
    file, folder = Path(file), Path(folder)
    name = file.stem if name is None else name
    if not name or Path(name).name != name:
        raise ValueError(f"The name must be one of a file, without a folder, got {name!r}.")
    check_output(folder, folder=True)
    checkpoint = read_checkpoint(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    found = recognise(checkpoint, num_heads, normalization, problem)
    backbone = policy_from(found, checkpoint.source).eval()
    pool = _pool(found, backbone, keys, checkpoint.source)
    paths = [folder / f"{name}{end}" for end in (".safetensors", ".md", "-prompts.safetensors")]
    check_free(paths if pool else paths[:2], force)
    save_backbone(backbone, paths[0])
    if pool is not None:
        pool.save(paths[2])
    write_text(paths[1], _card(name, file.name, digest, found, backbone, pool))
    written = paths[2] if pool else None
    return Imported(found.layout, paths[0], paths[1], written, found.config, found.assumed)


def _pool(
    found: Found, backbone: Backbone, keys: str | Path | None, source: str
) -> PromptPool | None:
    if found.prompts is None:
        if keys is not None:
            raise ValueError(f"{source} has no prompts that the keys in {keys} could belong to.")
        return None
    count, layers, tokens, embed_dim = found.prompts.shape
    pool = PromptPool(count, tokens, layers, embed_dim, feature="code")
    with torch.no_grad():
        pool.prompts.copy_(found.prompts)
    pool.backbone_fingerprint = fingerprint(backbone)
    width = pool.keys.shape[1]
    rows = found.keys if keys is None else read_keys(keys, width)
    if rows is None:
        found.assumed.append("No keys; the pool can't choose a prompt until it has some.")
        return pool
    return pool.set_keys(_as_keys(rows, width))


def _as_keys(rows: Tensor, width: int) -> Keys:
    return Keys(rows, torch.zeros(width), torch.ones(width), "code")


def _card(
    name: str, source: str, digest: str, found: Found, backbone: Backbone, pool: PromptPool | None
) -> str:
    parameters = sum(p.numel() for p in backbone.parameters())
    lines = [
        f"# {name}",
        "",
        "| | |",
        "|---|---|",
        f"| source | `{source}` |",
        f"| SHA-256 of the source | `{digest}` |",
        f"| layout | {found.layout} |",
        f"| policy | `{found.policy}` |",
        f"| parameters | {parameters:,} |",
        f"| fingerprint | `{fingerprint(backbone)}` |",
        f"| imported by | rl4co-prompt {__version__} |",
        "",
        "## Architecture",
        "",
        "| | |",
        "|---|---|",
        *(f"| {option} | {value} |" for option, value in found.config.items()),
        "",
    ]
    if pool is not None:
        lines += ["## Prompts", "", "```", pool.summary(), "```", ""]
    if found.assumed:
        lines += ["## Assumed", "", *(f"* {sentence}" for sentence in found.assumed), ""]
    return "\n".join(lines)
