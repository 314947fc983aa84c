"""PromptPool: M pairs of a fixed key and a learned prompt."""

import json

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rl4co.models.zoo.am import AttentionModelPolicy
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rl4co_prompt import __version__, zoo
from rl4co_prompt.policy.backbone import fingerprint
from rl4co_prompt.policy.features import get_feature
from rl4co_prompt.policy.files import in_half, write_safetensors

FORMAT = "rl4co_prompt.pool"


@dataclass(frozen=True)
class Keys:
    """What :func:`rl4co_prompt.fit_keys` found.

    Args:
        keys: [prompt, feature]
        mean, std: [feature], of the key instances; for features that are standardised.
        feature: name of the feature.
        backbone: fingerprint of the model that the features came from.
        tasks: names of the tasks that the key instances came from.
    """

    keys: Tensor
    mean: Tensor
    std: Tensor
    feature: str
    backbone: str | None = None
    tasks: tuple[str, ...] = ()


class PromptPool(nn.Module):
    """M key-prompt pairs; each instance takes the prompt of its nearest key.

    Args:
        num_prompts: M, pairs in the pool.
        num_tokens: D, tokens that each encoder layer receives.
        num_layers, embed_dim: of the backbone.
        feature: ``code`` or ``paper``, see :mod:`rl4co_prompt.policy.features`.
        init_scale: prompts start uniform on [-init_scale, init_scale]; the paper has 1.
        gated: weigh the prompted against the plain encoder output by one learned number per
            prompt that starts at 0, so that training starts exactly at the backbone's score.
    """

    keys: Tensor
    feature_mean: Tensor
    feature_std: Tensor

    def __init__(
        self,
        num_prompts: int = 16,
        num_tokens: int = 5,
        num_layers: int = 6,
        embed_dim: int = 128,
        feature: str = "code",
        init_scale: float = 0.1,
        gated: bool = False,
    ):
        super().__init__()
        for name, value, least in (
            ("num_prompts", num_prompts, 1),
            ("num_tokens", num_tokens, 0),
            ("num_layers", num_layers, 1),
            ("embed_dim", embed_dim, 1),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")
        if not 0 <= init_scale < float("inf"):
            raise ValueError(f"init_scale must be 0 or more and finite, got {init_scale}.")
        self.feature = feature
        self.backbone_fingerprint: str | None = None
        self.tasks: tuple[str, ...] = ()
        width = get_feature(feature).dim(num_layers, embed_dim)
        # Unfitted keys are NaN, never a silent zero.
        self.register_buffer("keys", torch.full((num_prompts, width), float("nan")))
        self.register_buffer("feature_mean", torch.zeros(width))
        self.register_buffer("feature_std", torch.ones(width))
        shape = (num_prompts, num_layers, num_tokens, embed_dim)
        self.prompts = nn.Parameter((2 * torch.rand(shape) - 1) * init_scale)
        self.gate = nn.Parameter(torch.zeros(num_prompts)) if gated else None
        self.has_keys = False  # known on the host, so that no selection waits for the device
        self.register_load_state_dict_post_hook(_look_for_keys)

    @property
    def num_prompts(self) -> int:
        return self.prompts.shape[0]

    @property
    def num_layers(self) -> int:
        return self.prompts.shape[1]

    @property
    def num_tokens(self) -> int:
        return self.prompts.shape[2]

    @property
    def embed_dim(self) -> int:
        return self.prompts.shape[3]

    def forward(self, index: Tensor) -> Tensor:
        """Prompts by index. [batch] -> [batch, layer, token, embed]"""
        return self.prompts[index]

    def distances(self, features: Tensor) -> Tensor:
        """Distance of instances to every key. [batch, feature] -> [batch, prompt]"""
        if features.shape[-1] != self.keys.shape[-1]:
            raise ValueError(
                f"The features have {features.shape[-1]} numbers and the keys "
                f"{self.keys.shape[-1]}; extract them with feature={self.feature!r} from the "
                "backbone of this pool."
            )
        if not self.has_keys:
            raise ValueError(
                "The pool has no keys yet; run fit_keys on the backbone and pool.set_keys(keys)."
            )
        if get_feature(self.feature).standardise:
            features = (features - self.feature_mean) / self.feature_std
        return torch.cdist(features, self.keys, compute_mode="donot_use_mm_for_euclid_dist")

    def select(self, features: Tensor, num_prompts: int = 1) -> Tensor:
        """Nearest keys, best first, at most all; of equal ones, the older first.

        [batch, feature] -> [batch, num_prompts]
        """
        if num_prompts < 1:
            raise ValueError(f"num_prompts must be at least 1, got {num_prompts}.")
        if self.num_prompts == 1:
            return torch.zeros(len(features), 1, dtype=torch.long, device=features.device)
        k = min(num_prompts, self.num_prompts)
        return self.distances(features).sort(dim=-1, stable=True).indices[:, :k]

    @torch.no_grad()
    def set_keys(self, keys: Keys) -> "PromptPool":
        """Take over fitted keys; they stay fixed."""
        if keys.feature != self.feature:
            raise ValueError(
                f"The keys are of feature {keys.feature!r}, the pool of {self.feature!r}."
            )
        if keys.keys.shape != self.keys.shape:
            raise ValueError(
                f"The keys are {list(keys.keys.shape)}, the pool needs {list(self.keys.shape)} "
                "(num_prompts, feature); fit groups x clusters = num_prompts keys on its backbone."
            )
        if not torch.isfinite(keys.keys).all():
            raise ValueError("The keys hold NaN or infinite numbers; fit them again.")
        if keys.backbone is not None:
            self.check_backbone(keys.backbone)
            self.backbone_fingerprint = keys.backbone
        self.keys.copy_(keys.keys)
        self.feature_mean.copy_(keys.mean)
        self.feature_std.copy_(keys.std)
        self.tasks = keys.tasks
        self.has_keys = True
        return self

    @classmethod
    def for_backbone(
        cls,
        backbone: AttentionModelPolicy,
        num_prompts: int = 16,
        num_tokens: int = 5,
        **options: Any,
    ) -> "PromptPool":
        """A pool with the depth and width of a backbone; ``options`` as in the constructor."""
        layers = getattr(getattr(backbone.encoder, "net", None), "layers", None)
        if layers is None:
            raise TypeError(
                f"{type(backbone).__name__} can't be prompted; use a policy with RL4CO's attention "
                "encoder, such as AttentionModelPolicy."
            )
        depth, width = len(layers), backbone.decoder.embed_dim
        return cls(num_prompts, num_tokens, depth, width, **options)

    def check_backbone(self, mark: str) -> None:
        """Raise a one-sentence error if the prompts belong to a backbone of another fingerprint."""
        if self.backbone_fingerprint not in (None, mark):
            raise ValueError(
                f"The pool belongs to backbone {self.backbone_fingerprint}, this one is {mark}; "
                "load the backbone that the prompts were trained on."
            )

    def summary(self) -> str:
        """A few lines on what the pool is and holds."""
        count = sum(p.numel() for p in self.parameters())
        norms = self.prompts.detach().norm(dim=-1)
        size = f"mean token norm {norms.mean():.3f}" if norms.numel() else "no tokens"
        tasks = f"{len(self.tasks)} tasks" if self.tasks else "tasks not recorded"
        keys = f"{self.keys.shape[1]} numbers each, {tasks}" if self.has_keys else "not fitted"
        return "\n".join(
            (
                f"PromptPool: {self.num_prompts} prompts x {self.num_layers} layers x "
                f"{self.num_tokens} tokens x {self.embed_dim} = {count:,} trainable parameters",
                f"  feature   {self.feature}",
                f"  keys      {keys}",
                f"  prompts   {size}" + ("" if self.gate is None else ", gated"),
                f"  backbone  {self.backbone_fingerprint or 'not bound'}",
            )
        )

    def save(self, path: str | Path, half: bool = False) -> Path:
        """Write keys, prompts and statistics as one .safetensors file.

        Args:
            half: prompts in half precision; keys and statistics stay as they are.
        """
        metadata = {
            "format": FORMAT,
            "version": __version__,
            "feature": self.feature,
            "backbone": self.backbone_fingerprint or "",
            "tasks": json.dumps(self.tasks),
        }
        tensors = self.state_dict()
        learned = {name: tensors[name] for name, _ in self.named_parameters()}
        return write_safetensors(path, tensors | in_half(learned, half), metadata)

    @classmethod
    def from_pretrained(cls, path: str | Path, backbone: AttentionModelPolicy) -> "PromptPool":
        """Read a pool for a backbone; an error if it belongs to another one."""
        pool = cls.load(path)
        pool.check_backbone(fingerprint(backbone))
        return pool

    @classmethod
    def load(cls, path: str | Path) -> "PromptPool":
        """Read a file of :meth:`save`, or by its name the pool that ships."""
        path = zoo.pool_file(path)
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a readable .safetensors file ({error}).") from None
        missing = {"prompts", "keys", "feature_mean", "feature_std"} - set(tensors)
        if metadata.get("format") != FORMAT or missing:
            raise ValueError(
                f"{path} is not a prompt pool; expected a file that PromptPool.save wrote."
            )
        count, depth, tokens, width = tensors["prompts"].shape
        gated = "gate" in tensors
        pool = cls(count, tokens, depth, width, metadata["feature"], gated=gated)
        pool.load_state_dict(tensors)
        pool.backbone_fingerprint = metadata["backbone"] or None
        pool.tasks = tuple(json.loads(metadata["tasks"]))
        return pool


def _look_for_keys(pool: PromptPool, _: Any) -> None:
    pool.has_keys = not bool(pool.keys.isnan().any())
