"""The frozen model: POMO's attention policy inside RL4CO, and readers for its weights."""

import hashlib
import json
import pickle
import zipfile

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl4co.models.zoo.am import AttentionModelPolicy
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rl4co_prompt.policy.files import in_half, write_safetensors
from rl4co_prompt.rollout.engine import FastDecoding

FORMAT = "rl4co_prompt.backbone"
# Belong to AMDKD's distillation loss or count batches; no part of the forward pass.
IGNORED = {"W_hidden", "W_embed", "num_batches_tracked"}


_UNREADABLE = (
    SafetensorError,
    OSError,
    ValueError,
    RuntimeError,
    EOFError,
    TypeError,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
)


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
        normalization: ``instance`` or ``batch``, RL4CO's names.
    """

    def __init__(
        self,
        env_name: str = "cvrp",
        embed_dim: int = 128,
        num_encoder_layers: int = 6,
        num_heads: int = 8,
        feedforward_hidden: int = 512,
        normalization: str = "instance",
    ):
        if normalization not in ("instance", "batch"):
            raise ValueError(f"normalization must be instance or batch, got {normalization!r}.")
        head = embed_dim // num_heads if num_heads else 0
        if head * num_heads != embed_dim or head % 8 or head > 128:
            raise ValueError(
                f"embed_dim={embed_dim} with num_heads={num_heads} gives no head width that RL4CO "
                "takes: a multiple of 8 up to 128."
            )
        self.config = {
            "env_name": env_name,
            "embed_dim": embed_dim,
            "num_encoder_layers": num_encoder_layers,
            "num_heads": num_heads,
            "feedforward_hidden": feedforward_hidden,
            "normalization": normalization,
        }
        super().__init__(**self.config, use_graph_context=False, out_bias_pointer_attn=True)
        for layer in self.encoder.net.layers:
            layer[0].module.Wqkv = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.decoder.project_node_embeddings = KeyValueProjection(embed_dim)
        self.decoder.project_fixed_context = nn.Identity()


def fingerprint(backbone: AttentionModelPolicy) -> str:
    """A hash of what decides a backbone's choices: its weights and the settings beside them."""
    digest = hashlib.sha256()
    for part in ("encoder", "decoder"):
        module = getattr(backbone, part)
        for name, tensor in sorted(module.state_dict().items()):
            if _ignored(name):
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


def save_backbone(policy: POMOPolicy, path: str | Path, half: bool = False) -> Path:
    """Write a policy as one .safetensors file that :func:`load_backbone` reads.

    Args:
        half: in half precision; the policy that is read back is another one by a little.
    """
    if not isinstance(policy, POMOPolicy):
        raise TypeError(f"save_backbone writes a POMOPolicy, got {type(policy).__name__}.")
    metadata = {"format": FORMAT, "config": json.dumps(policy.config)}
    return write_safetensors(path, in_half(policy.state_dict(), half), metadata)


def load_backbone(
    path: str | Path, *, num_heads: int = 8, normalization: str | None = None
) -> POMOPolicy:
    """Read a frozen backbone: a file of :func:`save_backbone`, or POMO-format weights.

    POMO-format files (.pt, .npz or .safetensors, such as POMO's and AMDKD's) do not tell the number
    of heads.

    Args:
        num_heads: of POMO-format weights.
        normalization: of POMO-format weights; by default ``batch`` where the file has running
            statistics and ``instance`` elsewhere.
    """
    path = Path(path)
    weights, metadata = _read_tensors(path)
    if metadata.get("format") == FORMAT:
        policy = POMOPolicy(**json.loads(metadata["config"]))
        _load(policy, weights, path)
    else:
        policy = policy_from_pomo(weights, num_heads, normalization, source=str(path))
    return policy.eval().requires_grad_(False)


def policy_from_pomo(
    weights: dict[str, Tensor],
    num_heads: int = 8,
    normalization: str | None = None,
    source: str = "The state dict",
) -> POMOPolicy:
    """Build RL4CO's policy from a POMO CVRP state dict (keys ``encoder.layers.0.Wq.weight``...)."""
    weights = {key.removeprefix("module."): value for key, value in weights.items()}
    probe = "encoder.layers.0.feed_forward.W1.weight"
    if probe not in weights or "encoder.embedding_depot.weight" not in weights:
        found = ", ".join(list(weights)[:3]) or "nothing"
        raise ValueError(
            f"{source} is not a POMO CVRP model: it lacks encoder.embedding_depot.weight or "
            f"{probe} and holds {found}, ... instead."
        )
    feedforward_hidden, embed_dim = weights[probe].shape
    layers = 1 + max(int(key.split(".")[2]) for key in weights if key.startswith("encoder.layers."))
    if normalization is None:
        tracked = any(key.endswith("running_mean") for key in weights)
        normalization = "batch" if tracked else "instance"
    policy = POMOPolicy(
        "cvrp", embed_dim, layers, num_heads, feedforward_hidden, normalization=normalization
    )
    _load(policy, _rename(weights, layers, source), source)
    return policy


def _ignored(key: str) -> bool:
    return not IGNORED.isdisjoint(key.split("."))


def _rename(weights: dict[str, Tensor], layers: int, source: str) -> dict[str, Tensor]:
    """POMO's names to RL4CO's."""
    remaining = {key: value.float() for key, value in weights.items() if not _ignored(key)}
    renamed: dict[str, Tensor] = {}

    def move(old: str, new: str) -> None:
        for key in [key for key in remaining if key.startswith(old + ".")]:
            renamed[new + key[len(old) :]] = remaining.pop(key)

    def stack(old: list[str], new: str) -> None:
        missing = [key for key in old if key not in remaining]
        if missing:
            raise ValueError(f"{source} lacks {', '.join(missing)}; the file is incomplete.")
        renamed[new] = torch.cat([remaining.pop(key) for key in old])

    move("encoder.embedding_depot", "encoder.init_embedding.init_embed_depot")
    move("encoder.embedding_node", "encoder.init_embedding.init_embed")
    for i in range(layers):
        old, new = f"encoder.layers.{i}", f"encoder.net.layers.{i}"
        stack([f"{old}.W{x}.weight" for x in "qkv"], f"{new}.0.module.Wqkv.weight")
        move(f"{old}.multi_head_combine", f"{new}.0.module.out_proj")
        move(f"{old}.add_n_normalization_1.norm", f"{new}.1.normalizer")
        move(f"{old}.feed_forward.W1", f"{new}.2.module.lins.0")
        move(f"{old}.feed_forward.W2", f"{new}.2.module.lins.1")
        move(f"{old}.add_n_normalization_2.norm", f"{new}.3.normalizer")
    move("decoder.Wq_last", "decoder.context_embedding.project_context")
    stack(["decoder.Wk.weight", "decoder.Wv.weight"], "decoder.project_node_embeddings.weight")
    move("decoder.multi_head_combine", "decoder.pointer.project_out")
    if remaining:
        raise ValueError(
            f"{source} holds weights that POMO's CVRP model does not have: "
            f"{', '.join(list(remaining)[:3])}."
        )
    return renamed


def _load(policy: nn.Module, weights: dict[str, Tensor], source: Any) -> None:
    own = {k: v.shape for k, v in policy.state_dict().items() if not _ignored(k)}
    wrong = [key for key in own if key not in weights or weights[key].shape != own[key]]
    if wrong:
        raise ValueError(
            f"{source} lacks or has in another shape: {', '.join(wrong[:3])}; it is incomplete or "
            "of another architecture."
        )
    policy.load_state_dict(weights, strict=False)


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of .safetensors, .npz or a PyTorch file; nothing is unpickled."""
    if not path.is_file():
        raise FileNotFoundError(f"No backbone weights at {path}.")
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {k: file.get_tensor(k) for k in file.keys()}, file.metadata() or {}  # noqa: SIM118
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {k: torch.from_numpy(arrays[k]) for k in arrays.files}, {}
        state = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} can't be read as weights; expected .safetensors, .npz or a PyTorch file that "
            f"loads with weights_only=True ({type(error).__name__}); of a Lightning checkpoint, "
            "load the policy in Python and write it with save_backbone."
        ) from None
    for key in ("model_state_dict", "state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise ValueError(f"{path} holds no state dict; expected names and tensors.")
    return state, {}
