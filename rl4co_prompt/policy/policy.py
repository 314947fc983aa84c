"""PromptedPolicy: a drop-in for RL4CO's attention policies."""

import inspect

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from rl4co.envs import RL4COEnvBase, get_env
from rl4co.models.common.constructive.autoregressive import AutoregressivePolicy
from rl4co.models.zoo.am import AttentionModelPolicy
from rl4co.utils.decoding import BeamSearch, DecodingStrategy
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.policy.backbone import fingerprint, load_backbone
from rl4co_prompt.policy.encoder import PROMPT, PromptedEncoder
from rl4co_prompt.policy.pool import PromptPool

_COPIED = ("env_name", "temperature", "tanh_clipping", "mask_logits")
_STRATEGIES = (
    "greedy",
    "sampling",
    "multistart_greedy",
    "multistart_sampling",
    "beam_search",
    "evaluate",
)
_DECODING = {"decode_type"}.union(
    *(inspect.signature(cls.__init__).parameters for cls in (DecodingStrategy, BeamSearch))
) - {"self", "kwargs"}
_OPTIONS = ", ".join(sorted(_DECODING))
_DECODE_TYPES = ("train_decode_type", "val_decode_type", "test_decode_type")


class PromptedPolicy(AutoregressivePolicy):
    """A frozen attention policy whose encoder is adapted by a pool of prompts.

    The backbone's modules are used as they are and stay in evaluation mode; its parameters no
    longer ask for gradients. Without tokens the result is bit-equal to the backbone's.

    Args:
        backbone: an RL4CO attention policy, such as :class:`POMOPolicy`.
        pool: prompts of the backbone's depth and width.
        train_decode_type: ``sampling``, or the paper's ``greedy``; the backbone's by default.
    """

    encoder: PromptedEncoder

    def __init__(
        self, backbone: AttentionModelPolicy, pool: PromptPool, train_decode_type: str | None = None
    ):
        encoder = PromptedEncoder(backbone.encoder, pool)
        settings = {name: getattr(backbone, name) for name in (*_COPIED, *_DECODE_TYPES)}
        if train_decode_type is not None:
            if train_decode_type.removeprefix("multistart_") not in ("sampling", "greedy"):
                raise ValueError(
                    f"train_decode_type must be sampling or greedy, got {train_decode_type!r}."
                )
            settings["train_decode_type"] = train_decode_type
        mark = fingerprint(backbone)
        pool.check_backbone(mark)
        super().__init__(encoder=encoder, decoder=backbone.decoder, **settings)
        pool.backbone_fingerprint = mark
        for frozen in (encoder.encoder, self.decoder):
            frozen.requires_grad_(False)
        self.train(self.training)

    @property
    def pool(self) -> PromptPool:
        return self.encoder.pool

    @property
    def fingerprint(self) -> str:
        """Hash of the backbone's weights."""
        mark = self.pool.backbone_fingerprint
        assert mark is not None
        return mark

    def train(self, mode: bool = True) -> "PromptedPolicy":
        """As usual, but the backbone never leaves evaluation mode: norm statistics stay."""
        super().train(mode)
        self.encoder.encoder.eval()
        self.decoder.eval()
        return self

    def forward(
        self,
        td: TensorDict,
        env: str | RL4COEnvBase | None = None,
        phase: str = "train",
        calc_reward: bool = True,
        return_actions: bool = True,
        return_entropy: bool = False,
        return_hidden: bool = False,
        return_init_embeds: bool = False,
        return_sum_log_likelihood: bool = True,
        actions: Tensor | None = None,
        max_steps: int = 1_000_000,
        num_prompts: int = 1,
        **decoding_kwargs: Any,
    ) -> dict:
        """Solve instances; arguments and result as in RL4CO's policies.

        Args:
            num_prompts: try the k nearest prompts of every instance (the paper's top-k) and keep,
                instance by instance, all rollouts of the prompt with the best one; at most the
                whole pool.

        Returns:
            RL4CO's dictionary, and ``prompt`` [batch], the index of the prompt kept.
        """
        _check_decoding(decoding_kwargs)
        env = self._environment(env, td)
        options = dict(
            phase=phase,
            calc_reward=calc_reward,
            return_actions=return_actions,
            return_entropy=return_entropy,
            return_hidden=return_hidden,
            return_init_embeds=return_init_embeds,
            return_sum_log_likelihood=return_sum_log_likelihood,
            actions=actions,
            max_steps=max_steps,
        )
        given = td.get(PROMPT, None)
        if given is not None:
            self._check_given(given, td)
            return self._run(td, env, given, **options, **decoding_kwargs)
        with self.encoder.choosing(td, num_prompts) as choices:
            if choices.shape[1] > 1 and (actions is not None or return_hidden or not calc_reward):
                raise ValueError(
                    "num_prompts > 1 compares rewards, so it goes with calc_reward=True and "
                    "without actions or return_hidden."
                )
            first, *others = choices.unbind(1)
            best = self._run(td, env, first, **options, **decoding_kwargs)
            for prompt in others:
                one = self._run(td, env, prompt, **options, **decoding_kwargs)
                best = _better(best, one)
        return best

    def _run(self, td: TensorDict, env: RL4COEnvBase, prompt: Tensor, **options: Any) -> dict:
        """RL4CO's forward pass with one prompt per instance."""
        out = super().forward(td.copy().set(PROMPT, prompt), env, **options)  # it writes into td
        return out | {PROMPT: prompt}

    def explain(self, td: TensorDict) -> "Explanation":
        """Which keys are near, how near, and which prompt each reset instance takes."""
        if self.pool.num_prompts == 1 and not self.pool.has_keys:
            only = torch.zeros(*td.batch_size, 1, dtype=torch.long, device=self.pool.keys.device)
            return Explanation(
                only, torch.full_like(only, torch.nan, dtype=torch.float), only[:, 0]
            )
        distance, order = self.pool.distances(self.encoder.features(td)[0]).sort(-1)
        return Explanation(order, distance, order[:, 0])

    def trainable_parameters(self) -> str:
        """The count of trained and of all parameters, in PEFT's words."""
        trained = sum(p.numel() for p in self.parameters() if p.requires_grad)
        total = sum(p.numel() for p in self.parameters())
        return (
            f"trainable params: {trained:,} || all params: {total:,} || "
            f"trainable%: {100 * trained / total:.4f}"
        )

    def save(self, path: str | Path) -> Path:
        """Write the pool; the backbone has its own file."""
        return self.pool.save(path)

    @classmethod
    def from_pretrained(
        cls, backbone: AttentionModelPolicy | str | Path, pool: str | Path
    ) -> "PromptedPolicy":
        """Put a saved pool on its backbone (a policy, or the file of one)."""
        if isinstance(backbone, str | Path):
            backbone = load_backbone(backbone)
        return cls(backbone, PromptPool.load(pool)).eval()

    def _check_given(self, given: Tensor, td: TensorDict) -> None:
        if given.shape != td.batch_size or given.min() < 0:
            raise ValueError(f"{PROMPT!r} in the TensorDict must be one index per instance.")
        if given.max() >= self.pool.num_prompts:
            raise ValueError(
                f"{PROMPT!r} asks for prompt {int(given.max())} of {self.pool.num_prompts}."
            )

    def _environment(self, env: str | RL4COEnvBase | None, td: TensorDict) -> RL4COEnvBase:
        if not (env is None or isinstance(env, str)):
            return env
        made = get_env(self.env_name if env is None else env)
        # RL4CO starts rollouts at the first generator.num_loc nodes, 20 unless told otherwise.
        if type(made).select_start_nodes is RL4COEnvBase.select_start_nodes:
            made.generator.num_loc = made.get_num_starts(td)
        return made


def _check_decoding(options: dict[str, Any]) -> None:
    """RL4CO swallows misspelt options and samples where it does not know the decode type."""
    unknown = sorted(set(options) - _DECODING)
    if unknown:
        raise TypeError(f"Unknown option {', '.join(unknown)}; RL4CO decodes with {_OPTIONS}.")
    decode_type = options.get("decode_type")
    if decode_type is not None and decode_type not in _STRATEGIES:
        raise ValueError(
            f"Unknown decode_type {decode_type!r}; use one of {', '.join(_STRATEGIES)}."
        )


def _better(a: dict, b: dict) -> dict:
    """Per instance, the outputs of the prompt whose best rollout is better; ``a`` on a tie."""
    batch = len(a[PROMPT])
    # RL4CO's rows are (start batch).
    best_a, best_b = (out["reward"].view(-1, batch).amax(0) for out in (a, b))
    take_b = best_b > best_a
    merged = {PROMPT: torch.where(take_b, b[PROMPT], a[PROMPT])}
    for key in a.keys() - {PROMPT}:
        x, y = a[key], b[key]
        rows = take_b.repeat(len(x) // batch)
        if x.ndim == 2 and x.shape[1] != y.shape[1]:  # tours: finished vehicles wait at the depot
            steps = max(x.shape[1], y.shape[1])
            x, y = (F.pad(z, (0, steps - z.shape[1])) for z in (x, y))
        merged[key] = torch.where(rows.view(-1, *[1] * (x.ndim - 1)), y, x)
    return merged


@dataclass(frozen=True)
class Explanation:
    """Keys in order of distance.

    Args:
        keys: [batch, prompt] indices, nearest first.
        distances: [batch, prompt], in the same order.
        prompts: [batch], the chosen ones.
    """

    keys: Tensor
    distances: Tensor
    prompts: Tensor

    def __str__(self) -> str:
        lines = ["instance  prompt  nearest keys (distance)"]
        for i, prompt in enumerate(self.prompts.tolist()):
            pairs = zip(self.keys[i, :4].tolist(), self.distances[i, :4].tolist(), strict=True)
            near = "  ".join(f"{key} ({distance:.3f})" for key, distance in pairs)
            lines.append(f"{i:8d}  {prompt:6d}  {near}")
        return "\n".join(lines)
