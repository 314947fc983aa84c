"""The layout of Kool et al.'s attention model."""

import json

from typing import Any

import torch

from torch import Tensor

from rl4co_prompt.policy.layouts.names import GUESSED, Found, Renaming, depth, norm_kind
from rl4co_prompt.policy.reading import Checkpoint, Inert

PROBE = "embedder.layers.0.0.module.W_query"
_PROBLEMS = {  # his name -> RL4CO's
    "cvrp": "cvrp",
    "op": "op",
    "pctsp_det": "pctsp",
    "pctsp_stoch": "spctsp",
    "sdvrp": "sdvrp",
    "tsp": "tsp",
}
_ALIKE = {2: ("tsp",), 3: ("cvrp", "op"), 4: ("pctsp", "spctsp")}  # by the numbers of a node


def read_kool(
    weights: dict[str, Tensor],
    checkpoint: Checkpoint,
    num_heads: int | None,
    normalization: str | None,
) -> Found:
    """Kool's attention model for all of his problems."""
    source, arguments = checkpoint.source, _arguments(checkpoint)
    problem, assumed = _problem(weights, arguments)
    if problem not in _PROBLEMS.values():
        raise ValueError(
            f"{source} is Kool's model for {problem}; expected one for "
            f"{', '.join(sorted(set(_PROBLEMS.values())))}."
        )
    names = Renaming(weights, source)
    heads, embed_dim, _ = names.shape(PROBE, 3)
    layers = depth(weights, "embedder.layers.")
    hidden = names.look("embedder.layers.0.2.module.0.bias")
    config = {
        "env_name": problem,
        "embed_dim": embed_dim,
        "num_encoder_layers": layers,
        "num_heads": heads,
        "feedforward_hidden": len(hidden),
        "normalization": norm_kind(weights, normalization, source),
        "attention_bias": False,
        "tanh_clipping": float(arguments.get("tanh_clipping", 10.0)),
    }
    for i in range(layers):
        _layer(names, f"embedder.layers.{i}", f"encoder.net.layers.{i}")
    names.move("init_embed_depot", "encoder.init_embedding.init_embed_depot")
    names.move("init_embed", "encoder.init_embedding.init_embed")
    if problem == "tsp":
        (symbol,) = names.take("W_placeholder")
        names.new["decoder.context_embedding.W_placeholder"] = symbol
    names.move("project_step_context", "decoder.context_embedding.project_context")
    names.move("project_node_embeddings", "decoder.project_node_embeddings")
    names.move("project_fixed_context", "decoder.project_fixed_context")
    names.move("project_node_step", "decoder.dynamic_embedding.projection")
    names.move("project_out", "decoder.pointer.project_out")
    found = names.done("Kool's attention model")
    return Found("Kool's attention model", "AttentionPolicy", config, found, assumed)


def _layer(names: Renaming, old: str, new: str) -> None:
    """Heads are apart there, and there are no biases in the attention."""
    attention = [f"{old}.0.module.W_{x}" for x in ("query", "key", "val", "out")]
    *qkv, out = names.take(*attention)
    rows = [x.transpose(1, 2).flatten(0, 1) for x in qkv]
    names.new[f"{new}.0.module.Wqkv.weight"] = torch.cat(rows)
    names.new[f"{new}.0.module.out_proj.weight"] = out.flatten(0, 1).T.contiguous()
    names.move(f"{old}.1.normalizer", f"{new}.1.normalizer")
    names.move(f"{old}.2.module.0", f"{new}.2.module.lins.0")
    names.move(f"{old}.2.module.2", f"{new}.2.module.lins.1")
    names.move(f"{old}.3.normalizer", f"{new}.3.normalizer")


def _arguments(checkpoint: Checkpoint) -> dict[str, Any]:
    """The arguments of the training, in the file or in args.json beside it."""
    inside = checkpoint.beside.get("args")
    if inside is not None:
        arguments = vars(inside) if isinstance(inside, Inert) else inside
        return dict(arguments) if isinstance(arguments, dict) else {}
    path = checkpoint.path
    if path is None:
        return {}
    for beside in (path.with_suffix(".args.json"), path.with_name("args.json")):
        if beside.is_file():
            try:
                return dict(json.loads(beside.read_text()))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{beside} is no JSON of training arguments ({error}).") from None
    return {}


def _problem(weights: dict[str, Tensor], arguments: dict[str, Any]) -> tuple[str, list[str]]:
    """RL4CO's name of it, and what had to be assumed."""
    if "problem" in arguments:
        named = str(arguments["problem"])
        return _PROBLEMS.get(named, named), []
    columns = weights["init_embed.weight"].shape[1] if "init_embed.weight" in weights else 0
    alike = _ALIKE.get(columns, ("an unknown problem",))
    if "project_node_step.weight" in weights:
        alike = ("sdvrp",)
    others = f"; {', '.join(alike[1:])} would look the same" if alike[1:] else ""
    return alike[0], [f"{GUESSED}, {alike[0]}, by the shapes of the weights{others}."]
