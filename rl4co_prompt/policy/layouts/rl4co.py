"""The layout of RL4CO's attention policies: state dicts and Lightning checkpoints."""

from typing import Any

from torch import Tensor

from rl4co_prompt.policy.layouts.names import HEADS, Found, Renaming, depth, norm_kind, rename
from rl4co_prompt.policy.reading import Checkpoint, Inert

PROBE = "encoder.net.layers.0.0.module.Wqkv.weight"
_NAMES = (  # in early releases -> now
    ("decoder.logit_attention.", "decoder.pointer."),
    (".2.module.0.", ".2.module.lins.0."),
    (".2.module.2.", ".2.module.lins.1."),
)
_TOLD = ("env_name", "num_heads", "use_graph_context", "mask_inner", "temperature", "tanh_clipping")


def read_rl4co(
    weights: dict[str, Tensor],
    checkpoint: Checkpoint,
    num_heads: int | None,
    normalization: str | None,
) -> Found:
    """RL4CO's AttentionModelPolicy, and POMOPolicy of this package."""
    weights, source = rename(weights, _NAMES), checkpoint.source
    names = Renaming(weights, source)
    hidden, embed_dim = names.look("encoder.net.layers.0.2.module.lins.0.weight").shape
    config = {
        "env_name": _problem(names),
        "embed_dim": embed_dim,
        "num_encoder_layers": depth(weights, "encoder.net.layers."),
        "num_heads": HEADS if num_heads is None else num_heads,
        "feedforward_hidden": hidden,
        "normalization": _norm(weights, normalization, source),
    }
    parameters = _plain(checkpoint.beside.get("hyper_parameters"))
    told = _told(parameters)
    assumed = _assumed(told, num_heads)
    if len(names.look("decoder.project_node_embeddings.weight")) == 2 * embed_dim:
        config |= {k: v for k, v in told.items() if k in config}
        config["graph_context"] = "decoder.project_fixed_context.weight" in weights
        return Found("POMOPolicy", "POMOPolicy", config, weights, assumed)
    # RL4CO's POMO has no graph context; its attention model, with batch norm, has it.
    pomo = "num_augment" in parameters or config["normalization"] != "batch"
    config["use_graph_context"] = not pomo
    config["linear_bias_decoder"] = "decoder.project_node_embeddings.bias" in weights
    config["out_bias_pointer_attn"] = "decoder.pointer.project_out.bias" in weights
    if "use_graph_context" not in told:
        assumed.append(f"{'No' if pomo else 'A'} graph context.")
    return Found("RL4CO", "AttentionPolicy", config | told, weights, assumed)


def _problem(names: Renaming) -> str:
    """By the shapes; of many problems, only these are told apart."""
    depot = "encoder.init_embedding.init_embed_depot.weight" in names.old
    return "cvrp" if depot else "tsp"


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


def _assumed(told: dict[str, Any], num_heads: int | None) -> list[str]:
    assumed = []
    if "env_name" not in told:
        assumed.append("The problem, by the shapes of the weights.")
    if "num_heads" not in told and num_heads is None:
        assumed.append(f"{HEADS} heads.")
    return assumed
