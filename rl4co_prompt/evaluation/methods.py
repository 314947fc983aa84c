"""Methods: the rows of a table, by name."""

import re

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rl4co_prompt import zoo
from rl4co_prompt.evaluation.references import SOLVERS

_NAMES = "backbone, backbone@PASSES, prompt, prompt-topK, LABEL=FILE, " + ", ".join(SOLVERS)


@dataclass(frozen=True)
class Method:
    """A row: a policy with a budget of passes, or a solver.

    Args:
        label: shown in tables.
        kind: ``backbone``, ``prompt``, or the name of a solver.
        num_prompts: that compete.
        passes: of all starts in total, filled up with sampled ones; None for the greedy ones alone.
        weights: of another backbone than the one under test.
        pool: file of the prompts.
    """

    label: str
    kind: str
    num_prompts: int = 1
    passes: int | None = None
    weights: Path | None = None
    pool: Path | None = None

    @property
    def neural(self) -> bool:
        return self.kind not in SOLVERS


def parse_methods(
    names: str | Iterable[str], pools: Iterable[Path] = (), weights: str | Path = ""
) -> list[Method]:
    """Methods from names such as ``backbone,prompt,prompt-top8,hgs``; prompts for every pool.

    Args:
        pools: by default the one that ships with the weights, if they are ours.
        weights: of the backbone under test.
    """
    words = names.split(",") if isinstance(names, str) else list(names or ())
    pools, shipped = list(pools), zoo.find(weights)
    own = [shipped.pool] if shipped is not None and shipped.pool is not None else []
    methods: list[Method] = []
    for word in (str(word).strip() for word in words):
        methods += _parse(word, pools or own)
    if pools and not any(method.kind == "prompt" for method in methods):
        raise ValueError("A pool is given, but no method that uses it; add prompt or prompt-top8.")
    doubled = {m.label for m in methods if sum(m.label == other.label for other in methods) > 1}
    if doubled:
        raise ValueError(f"The method {', '.join(sorted(doubled))} is named twice.")
    if not methods:
        raise ValueError(f"Name at least one method: {_NAMES}.")
    return methods


def _parse(word: str, pools: list[Path]) -> list[Method]:
    if word in SOLVERS:
        return [Method(word, word)]
    label, equals, file = word.partition("=")
    if equals and label and file:
        return [Method(label, "backbone", weights=Path(file))]
    if word == "backbone":
        return [Method(word, "backbone")]
    budget = re.fullmatch(r"backbone@(\d{1,6})", word)
    if budget and int(budget[1]) > 0:
        return [Method(word, "backbone", passes=int(budget[1]))]
    top = re.fullmatch(r"prompt(?:-top(\d{1,6}))?", word)
    if top and int(top[1] or 1) > 0:
        if not pools:
            raise ValueError(f"The method {word} needs prompts; give --pool FILE.")
        return [
            Method(
                word if len(pools) == 1 else f"{word} ({pool.stem})",
                "prompt",
                num_prompts=int(top[1] or 1),
                pool=pool,
            )
            for pool in pools
        ]
    raise ValueError(f"Unknown method {word!r}; use {_NAMES}.")
