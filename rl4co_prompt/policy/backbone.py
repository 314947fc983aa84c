"""The frozen model: attention policies of RL4CO with a record of their options, and their files."""

import hashlib
import json
import warnings

from pathlib import Path
from typing import Any

import torch

from rl4co.models.nn.ops import Normalization
from rl4co.models.zoo.am import AttentionModelPolicy
from torch import Tensor, nn

from rl4co_prompt.policy.files import in_half, write_safetensors
from rl4co_prompt.policy.layouts import Found, ignored, read_layout
from rl4co_prompt.policy.reading import Checkpoint, read_checkpoint
from rl4co_prompt.rollout.engine import FastDecoding

FORMAT = "rl4co_prompt.backbone"
UNTRACKED = "batch_no_track"
NORMS = ("instance", "batch", UNTRACKED)
_OPTIONS = {
    "attention_bias",
    "env_name",
    "embed_dim",
    "num_encoder_layers",
    "num_heads",
    "feedforward_hidden",
    "normalization",
    "use_graph_context",
    "linear_bias_decoder",
    "mask_inner",
    "out_bias_pointer_attn",
    "temperature",
    "tanh_clipping",
}


class KeyValueProjection(nn.Linear):
    """Glimpse keys and values of the nodes; the logit key is the node itself, as in POMO."""

    def __init__(self, embed_dim: int):
        super().__init__(embed_dim, 2 * embed_dim, bias=False)

    def forward(self, nodes: Tensor) -> Tensor:
        """[batch, node, embed] -> [batch, node, 3 * embed]"""
        return torch.cat((super().forward(nodes), nodes), -1)


class POMOPolicy(FastDecoding, AttentionModelPolicy):
    """POMO's attention model (Kwon et al., 2020), parameter for parameter.

    RL4CO's own policy has biases on queries, keys and values, a free matrix for the logit keys
    and an unused context projection, none of which POMO has. The defaults are the paper's.

    Args:
        normalization: ``instance``, ``batch``, or Omni-VRP's ``batch_no_track``, which takes the
            statistics of the current batch in evaluation, too.
        graph_context: add the mean of all nodes to the query, as POMO's first release does.
    """

    def __init__(
        self,
        env_name: str = "cvrp",
        embed_dim: int = 128,
        num_encoder_layers: int = 6,
        num_heads: int = 8,
        feedforward_hidden: int = 512,
        normalization: str = "instance",
        graph_context: bool = False,
    ):
        _check_norm(normalization, NORMS)
        _check_heads(embed_dim, num_heads)
        self.config = {
            "env_name": env_name,
            "embed_dim": embed_dim,
            "num_encoder_layers": num_encoder_layers,
            "num_heads": num_heads,
            "feedforward_hidden": feedforward_hidden,
            "normalization": normalization,
            "graph_context": graph_context,
        }
        super().__init__(
            env_name=env_name,
            embed_dim=embed_dim,
            num_encoder_layers=num_encoder_layers,
            num_heads=num_heads,
            feedforward_hidden=feedforward_hidden,
            normalization=_known_to_rl4co(normalization),
            use_graph_context=graph_context,
            out_bias_pointer_attn=True,
        )
        if normalization == UNTRACKED:
            _forget_statistics(self.encoder)
        for layer in self.encoder.net.layers:
            layer[0].module.Wqkv = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.decoder.project_node_embeddings = KeyValueProjection(embed_dim)
        if not graph_context:
            self.decoder.project_fixed_context = nn.Identity()


class AttentionPolicy(FastDecoding, AttentionModelPolicy):
    """RL4CO's attention policy, the model of Kool et al. (2019) by default.

    Args:
        config: options of RL4CO's ``AttentionModelPolicy`` that are numbers or names; the
            normalization may be ``batch_no_track``, too, and ``attention_bias=False`` takes the
            biases from the encoder's attention.
    """

    def __init__(self, **config: Any):
        unknown = sorted(set(config) - _OPTIONS)
        if unknown:
            raise TypeError(
                f"Unknown option {', '.join(unknown)}; known are {', '.join(sorted(_OPTIONS))}."
            )
        self.config = config
        normalization = config.get("normalization", "batch")
        _check_norm(normalization, (*NORMS, "layer"))
        _check_heads(config.get("embed_dim", 128), config.get("num_heads", 8))
        options = config | {"normalization": _known_to_rl4co(normalization)}
        bias = options.pop("attention_bias", True)
        super().__init__(**options)
        if normalization == UNTRACKED:
            _forget_statistics(self.encoder)
        for layer in self.encoder.net.layers if not bias else ():
            layer[0].module.Wqkv.bias = layer[0].module.out_proj.bias = None


def _check_heads(embed_dim: int, num_heads: int) -> None:
    head = embed_dim // num_heads if num_heads > 0 else 0
    if head * num_heads != embed_dim or head % 8 or head > 128:
        raise ValueError(
            f"embed_dim={embed_dim} with num_heads={num_heads} gives no head width that RL4CO "
            "takes: a multiple of 8 up to 128."
        )


def _check_norm(normalization: str, known: tuple[str, ...]) -> None:
    if normalization not in known:
        names = f"{', '.join(known[:-1])} or {known[-1]}"
        raise ValueError(f"normalization must be {names}, got {normalization!r}.")


def _known_to_rl4co(normalization: str) -> str:
    return "batch" if normalization == UNTRACKED else normalization


def _forget_statistics(encoder: nn.Module) -> None:
    """Let batch norms take the current batch's statistics always."""
    for norm in [module for module in encoder.modules() if isinstance(module, Normalization)]:
        width = norm.normalizer.num_features
        norm.normalizer = nn.BatchNorm1d(width, track_running_stats=False)


def fingerprint(backbone: AttentionModelPolicy) -> str:
    """A hash of what decides a backbone's choices: its weights and the settings beside them."""
    digest = hashlib.sha256()
    for part in ("encoder", "decoder"):
        module = getattr(backbone, part)
        for name, tensor in sorted(module.state_dict().items()):
            if ignored(name):
                continue
            array = tensor.detach().cpu().contiguous()
            digest.update(f"{part}.{name}{list(array.shape)}{array.dtype}".encode())
            digest.update(array.flatten().view(torch.uint8).numpy().tobytes())
    decoder, norm = backbone.decoder, backbone.encoder.net.layers[0][1].normalizer
    settings = (
        backbone.env_name,
        backbone.temperature,
        backbone.tanh_clipping,
        backbone.mask_logits,
        decoder.num_heads,
        decoder.use_graph_context,
        decoder.pointer.mask_inner,
        norm if isinstance(norm, str) else type(norm).__name__,
    )
    digest.update(repr(settings).encode())
    return digest.hexdigest()[:32]


def save_backbone(policy: "Backbone", path: str | Path, half: bool = False) -> Path:
    """Write a policy as one .safetensors file that :func:`load_backbone` reads.

    Args:
        half: in half precision; the policy that is read back is another one by a little.
    """
    kind = kind_of(policy)
    if kind is None:
        raise TypeError(
            f"save_backbone writes a {' or '.join(_POLICIES)}, got {type(policy).__name__}."
        )
    metadata = {"format": FORMAT, "policy": kind, "config": json.dumps(policy.config)}
    return write_safetensors(path, in_half(policy.state_dict(), half), metadata)


def kind_of(policy: nn.Module) -> str | None:
    """The name of its class in files, if they can hold it."""
    return next((name for name, cls in _POLICIES.items() if isinstance(policy, cls)), None)


def load_backbone(
    path: str | Path, *, num_heads: int | None = None, normalization: str | None = None
) -> "Backbone":
    """Read a frozen backbone: one that ships by its name, or a file of anyone's weights.

    The layouts of :mod:`rl4co_prompt.policy.layouts` are recognised by their names, in .pt, .ckpt,
    .npz or .safetensors files. A warning says what had to be assumed.

    Args:
        num_heads: where the file does not tell, as in POMO's layout; 8 by default.
        normalization: where the file does not tell; by default ``batch`` where it has running
            statistics and ``instance`` elsewhere.
    """
    checkpoint = read_checkpoint(path)
    found = recognise(checkpoint, num_heads, normalization)
    policy = policy_from(found, checkpoint.source)
    if found.assumed:
        warnings.warn(
            f"{checkpoint.source} leaves something open. Assumed: {' '.join(found.assumed)}",
            stacklevel=2,
        )
    return policy.eval().requires_grad_(False)


def recognise(
    checkpoint: Checkpoint,
    num_heads: int | None = None,
    normalization: str | None = None,
    problem: str | None = None,
) -> Found:
    """What a file of weights holds: a policy of :func:`save_backbone`, or anyone's."""
    metadata = checkpoint.metadata
    if metadata.get("format") != FORMAT:
        return read_layout(checkpoint, num_heads, normalization, problem)
    kind = metadata.get("policy", "POMOPolicy")
    if kind not in _POLICIES:
        raise ValueError(f"{checkpoint.source} is a {kind}; expected {' or '.join(_POLICIES)}.")
    return Found("rl4co-prompt", kind, json.loads(metadata["config"]), checkpoint.weights)


def policy_from(found: Found, source: str = "The state dict") -> "Backbone":
    """The policy of weights in our names."""
    policy = _POLICIES[found.policy](**found.config)
    _load(policy, found.weights, source)
    return policy


def policy_from_weights(
    weights: dict[str, Tensor], num_heads: int = 8, normalization: str | None = None
) -> "Backbone":
    """The policy of a state dict in any known layout."""
    return policy_from(read_layout(Checkpoint(weights), num_heads, normalization))


def _load(policy: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    own = {k: v.shape for k, v in policy.state_dict().items() if not ignored(k)}
    wrong = [key for key in own if key not in weights or weights[key].shape != own[key]]
    if wrong:
        raise ValueError(
            f"{source} lacks or has in another shape: {', '.join(wrong[:3])}; it is incomplete or "
            "of another architecture."
        )
    strange = [key for key in weights if key not in own and not ignored(key)]
    if strange:
        raise ValueError(
            f"{source} holds weights that {type(policy).__name__} does not have: "
            f"{', '.join(strange[:3])}."
        )
    broken = [key for key in own if not weights[key].isfinite().all()]
    if broken:
        raise ValueError(f"{source} holds NaN or infinite numbers: {', '.join(broken[:3])}.")
    policy.load_state_dict(weights, strict=False)


Backbone = POMOPolicy | AttentionPolicy
_POLICIES: dict[str, type[Backbone]] = {
    "POMOPolicy": POMOPolicy,
    "AttentionPolicy": AttentionPolicy,
}
