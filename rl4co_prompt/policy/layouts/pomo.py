"""POMO's layouts: Kwon et al.'s two releases, AMDKD's students, Omni-VRP and PromptVRP."""

import torch

from torch import Tensor

from rl4co_prompt.policy.layouts.names import (
    HEADS,
    INSTANCE_NORM,
    Found,
    Renaming,
    depth,
    norm_kind,
    rename,
)
from rl4co_prompt.policy.reading import Checkpoint

PROBE = "encoder.layers.0.Wq.weight"
_NAMES = (  # in POMO's TSP model and its first release -> in its CVRP model
    ("addAndNormalization", "add_n_normalization_"),
    ("norm_by_EMB", "norm"),
    ("feedForward", "feed_forward"),
    ("node_prob_calculator.", "decoder."),
)
_GRAPH = {"decoder.Wq.weight", "decoder.Wq_graph.weight"}  # queries with the mean of all nodes


def read_pomo(
    weights: dict[str, Tensor],
    checkpoint: Checkpoint,
    num_heads: int | None,
    normalization: str | None,
) -> Found:
    """POMO's models for CVRP and TSP in both releases, and those made of them."""
    source, pool = checkpoint.source, _split(weights, "promptpool.")
    old = any(name.startswith("node_prob_calculator.") for name in weights)
    names = Renaming(rename(weights, _NAMES), source)
    hidden, embed_dim = names.shape("encoder.layers.0.feed_forward.W1.weight", 2)
    layers = depth(names.old, "encoder.layers.")
    config = {
        "env_name": "tsp" if "encoder.embedding.weight" in names.old else "cvrp",
        "embed_dim": embed_dim,
        "num_encoder_layers": layers,
        "num_heads": HEADS if num_heads is None else num_heads,
        "feedforward_hidden": hidden,
        "normalization": norm_kind(names.old, normalization, source),
        "graph_context": not names.old.keys().isdisjoint(_GRAPH),
    }
    _encoder(names, layers)
    _decoder(names, embed_dim)
    return Found(
        _name(old, pool, checkpoint.weights),
        "POMOPolicy",
        config,
        names.done("POMO"),
        _assumed(config, num_heads, normalization),
        _prompts(pool, layers, embed_dim, source),
        _keys(pool, layers, embed_dim),
    )


def _encoder(names: Renaming, layers: int) -> None:
    names.move("encoder.embedding_depot", "encoder.init_embedding.init_embed_depot")
    names.move("encoder.embedding_node", "encoder.init_embedding.init_embed")
    names.move("encoder.embedding", "encoder.init_embedding.init_embed")
    for i in range(layers):
        old, new = f"encoder.layers.{i}", f"encoder.net.layers.{i}"
        qkv = names.take(*(f"{old}.W{x}.weight" for x in "qkv"))
        names.new[f"{new}.0.module.Wqkv.weight"] = torch.cat(qkv)
        names.move(f"{old}.multi_head_combine", f"{new}.0.module.out_proj")
        names.move(f"{old}.add_n_normalization_1.norm", f"{new}.1.normalizer")
        names.move(f"{old}.feed_forward.W1", f"{new}.2.module.lins.0")
        names.move(f"{old}.feed_forward.W2", f"{new}.2.module.lins.1")
        names.move(f"{old}.add_n_normalization_2.norm", f"{new}.3.normalizer")


def _decoder(names: Renaming, embed_dim: int) -> None:
    """Queries from the last node and the load (CVRP) or the first and last node (TSP).

    The first release has the mean of all nodes in the query, too.
    """
    context, graph = "decoder.context_embedding.project_context.weight", None
    if "decoder.Wq_first.weight" in names.old:
        first_last = names.take("decoder.Wq_first.weight", "decoder.Wq_last.weight")
        names.new[context] = torch.cat(first_last, 1)
        # POMO's tours have their first node given; RL4CO has a symbol for the empty tour.
        names.new["decoder.context_embedding.W_placeholder"] = torch.zeros(2 * embed_dim)
        if "decoder.Wq_graph.weight" in names.old:
            (graph,) = names.take("decoder.Wq_graph.weight")
    elif "decoder.Wq.weight" in names.old:
        (query,) = names.take("decoder.Wq.weight")
        graph, names.new[context] = query[:, :embed_dim], query[:, embed_dim:]
    else:
        (names.new[context],) = names.take("decoder.Wq_last.weight")
    if graph is not None:
        names.new["decoder.project_fixed_context.weight"] = graph
    pair = names.take("decoder.Wk.weight", "decoder.Wv.weight")
    names.new["decoder.project_node_embeddings.weight"] = torch.cat(pair)
    names.move("decoder.multi_head_combine", "decoder.pointer.project_out")


def _name(old: bool, pool: dict[str, Tensor], weights: dict[str, Tensor]) -> str:
    if pool:
        return "PromptVRP"
    if any("W_hidden" in name for name in weights):
        return "AMDKD student (POMO)"
    return "POMO, first release" if old else "POMO"


def _assumed(config: dict, num_heads: int | None, normalization: str | None) -> list[str]:
    assumed = []
    if num_heads is None:
        assumed.append(f"{HEADS} heads; files of this layout do not tell.")
    if normalization is None and config["normalization"] == "instance":
        assumed.append(INSTANCE_NORM)
    if config["env_name"] == "tsp":
        assumed.append("A first node that is given; from an empty tour the model chooses blindly.")
    return assumed


def _split(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Take the weights of one module out."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name[len(prefix) :]: weights.pop(name) for name in names}


def _prompts(pool: dict[str, Tensor], layers: int, embed_dim: int, source: str) -> Tensor | None:
    """PromptVRP stores token by token, and in each the layers."""
    if "prompt" not in pool:
        return None
    flat = pool["prompt"].flatten(1)
    if not flat.isfinite().all():
        raise ValueError(f"{source} has NaN or infinite numbers in its prompts.")
    if not flat.numel() or flat.shape[1] % (layers * embed_dim):
        raise ValueError(
            f"{source} has {len(flat)} prompts of {flat.shape[1]} numbers; expected a multiple of "
            f"{layers} layers x {embed_dim}."
        )
    return flat.view(len(flat), -1, layers, embed_dim).transpose(1, 2).contiguous()


def _keys(pool: dict[str, Tensor], layers: int, embed_dim: int) -> Tensor | None:
    """Keys inside of the checkpoint, if they are of the published feature."""
    keys = pool.get("prompt_key")
    return keys if keys is not None and keys.shape[-1] == 2 * layers * embed_dim else None
