"""The layout of RL4CO's attention policies: state dicts and Lightning checkpoints."""

from typing import Any

from rl4co.models.nn.env_embeddings import (
    env_context_embedding,
    env_dynamic_embedding,
    env_init_embedding,
)
from torch import Tensor

from rl4co_prompt.policy.layouts.names import (
    GUESSED,
    HEADS,
    INSTANCE_NORM,
    Found,
    Renaming,
    depth,
    norm_kind,
    rename,
)
from rl4co_prompt.policy.reading import Checkpoint, Inert

OWN = "rl4co_prompt"  # entry of this package's checkpoints: class and options of the policy
PROBE = "encoder.net.layers.0.0.module.Wqkv.weight"
_NAMES = (  # in early releases -> now
    ("decoder.logit_attention.", "decoder.pointer."),
    ("decoder.context.", "decoder.context_embedding."),
    (".2.module.0.", ".2.module.lins.0."),
    (".2.module.2.", ".2.module.lins.1."),
)
_EMBEDDINGS = {
    "encoder.init_embedding.": env_init_embedding,
    "decoder.context_embedding.": env_context_embedding,
    "decoder.dynamic_embedding.": env_dynamic_embedding,
}
# Of problems with the same shapes, the first is taken.
_PROBLEMS = ("cvrp", "tsp", "op", "pctsp", "spctsp", "sdvrp", "cvrptw", "pdp", "mtvrp", "mtsp")
_TOLD = ("env_name", "num_heads", "use_graph_context", "mask_inner", "temperature", "tanh_clipping")


def read_rl4co(
    weights: dict[str, Tensor],
    checkpoint: Checkpoint,
    num_heads: int | None,
    normalization: str | None,
) -> Found:
    """RL4CO's AttentionModelPolicy, and POMOPolicy of this package."""
    own = checkpoint.beside.get(OWN)
    if isinstance(own, dict) and own.get("policy") in ("POMOPolicy", "AttentionPolicy"):
        return Found("rl4co-prompt", own["policy"], own["config"], weights)
    weights, source = rename(weights, _NAMES), checkpoint.source
    if any(".experts." in name for name in weights):
        raise ValueError(
            f"{source} has a mixture of experts; expected plain feed-forward layers in encoder and "
            "decoder."
        )
    names = Renaming(weights, source)
    hidden, embed_dim = names.shape("encoder.net.layers.0.2.module.lins.0.weight", 2)
    problems = _problems(weights, embed_dim)
    config = {
        "env_name": next(iter(problems), "cvrp"),
        "embed_dim": embed_dim,
        "num_encoder_layers": depth(weights, "encoder.net.layers."),
        "num_heads": HEADS if num_heads is None else num_heads,
        "feedforward_hidden": hidden,
        "normalization": _norm(weights, normalization, source),
    }
    parameters = _plain(checkpoint.beside.get("hyper_parameters"))
    told = _told(parameters)
    assumed = _assumed(told, num_heads, problems)
    if len(names.look("decoder.project_node_embeddings.weight")) == 2 * embed_dim:
        config |= {k: v for k, v in told.items() if k in config}
        config["graph_context"] = "decoder.project_fixed_context.weight" in weights
        if normalization is None and config["normalization"] == "instance":
            assumed.append(INSTANCE_NORM)
        return Found("POMOPolicy", "POMOPolicy", config, weights, assumed)
    # RL4CO's POMO has no graph context; its attention model, with batch norm, has it.
    pomo = "num_augment" in parameters or config["normalization"] != "batch"
    config["use_graph_context"] = not pomo
    config["linear_bias_decoder"] = "decoder.project_node_embeddings.bias" in weights
    config["out_bias_pointer_attn"] = "decoder.pointer.project_out.bias" in weights
    if "use_graph_context" not in told:
        assumed.append(f"{'No' if pomo else 'A'} graph context.")
    return Found("RL4CO", "AttentionPolicy", config | told, weights, assumed)


def _problems(weights: dict[str, Tensor], embed_dim: int) -> list[str]:
    """Those whose embeddings have these names and shapes."""
    shapes = {k: v.shape for k, v in weights.items() if k.startswith(tuple(_EMBEDDINGS))}
    return [name for name in _PROBLEMS if _embeddings(name, embed_dim) == shapes]


def _embeddings(problem: str, embed_dim: int) -> dict[str, Any]:
    modules = {k: make(problem, {"embed_dim": embed_dim}) for k, make in _EMBEDDINGS.items()}
    return {start + k: v.shape for start, m in modules.items() for k, v in m.state_dict().items()}


def _norm(weights: dict[str, Tensor], given: str | None, source: str) -> str:
    affine = any(name.endswith("normalizer.weight") for name in weights)
    return norm_kind(weights, given, source) if affine or given else "layer"


def _told(parameters: dict[str, Any]) -> dict[str, Any]:
    """Options in the hyper-parameters: of the policy itself, or the arguments that made it."""
    told = _plain(parameters.get("policy_kwargs"))
    policy = parameters.get("policy")
    if isinstance(policy, Inert):
        decoder = _child(policy, "decoder")
        for module in (policy, decoder, _child(decoder, "pointer")):
            told |= vars(module) if isinstance(module, Inert) else {}
    return {k: told[k] for k in _TOLD if isinstance(told.get(k), bool | int | float | str)}


def _child(module: Any, name: str) -> Any:
    return (vars(module).get("_modules") or {}).get(name) if isinstance(module, Inert) else None


def _plain(options: Any) -> dict[str, Any]:
    """A dictionary, or one of OmegaConf's."""
    if isinstance(options, Inert):
        content = vars(options).get("_content") or {}
        return {str(k): getattr(v, "_val", v) for k, v in content.items()}
    return dict(options) if isinstance(options, dict) else {}


def _assumed(told: dict[str, Any], num_heads: int | None, problems: list[str]) -> list[str]:
    assumed = []
    if "env_name" not in told:
        others = f"; {', '.join(problems[1:])} would look the same" if problems[1:] else ""
        assumed.append(f"{GUESSED}, by the shapes of the weights{others}.")
    if "num_heads" not in told and num_heads is None:
        assumed.append(f"{HEADS} heads.")
    return assumed
