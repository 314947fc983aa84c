"""PromptedPolicy: a drop-in for RL4CO's attention policies."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.am import AttentionModelPolicy
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.policy.backbone import fingerprint, load_backbone
from rl4co_prompt.policy.encoder import PROMPT, PromptedEncoder
from rl4co_prompt.policy.pool import PromptPool
from rl4co_prompt.rollout.engine import Call, FastDecoding
from rl4co_prompt.rollout.starts import with_starts

_COPIED = ("env_name", "temperature", "tanh_clipping", "mask_logits")
_DECODE_TYPES = ("train_decode_type", "val_decode_type", "test_decode_type")


class PromptedPolicy(FastDecoding):
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
        self._backbone = (backbone,)  # in a tuple, so that its modules are not registered twice
        pool.backbone_fingerprint = mark
        for frozen in (encoder.encoder, self.decoder):
            frozen.requires_grad_(False)
        self.train(self.training)

    @property
    def pool(self) -> PromptPool:
        return self.encoder.pool

    @property
    def backbone(self) -> AttentionModelPolicy:
        """The frozen policy, without prompts."""
        return self._backbone[0]

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
        *arguments: Any,
        num_prompts: int = 1,
        **options: Any,
    ) -> dict:
        """Solve instances; arguments and result as in RL4CO's policies.

        Args:
            num_prompts: try the k nearest prompts of every instance (the paper's top-k) and keep,
                instance by instance, all rollouts of the prompt with the best one; at most the
                whole pool.
            arguments, options: as in :meth:`FastDecoding.forward`.

        Returns:
            RL4CO's dictionary, and ``prompt`` [batch], the index of the prompt kept.
        """
        return super().forward(td, env, phase, *arguments, num_prompts=num_prompts, **options)

    def solve_in_parts(
        self,
        td: TensorDict,
        env: str | RL4COEnvBase | None = None,
        engine: str | None = None,
        **options: Any,
    ) -> Iterator[dict]:
        """As in :meth:`FastDecoding.solve_in_parts`; starts are those that the instances allow."""
        phase = options.get("phase", "train")
        usual = getattr(self, f"{phase}_decode_type")
        return super().solve_in_parts(td, env, engine, **with_starts(td, options, usual))

    def plan(
        self, env: RL4COEnvBase, engine: str | None = None, num_prompts: int = 1, **options: Any
    ) -> Call:
        """What a forward pass with these options would do."""
        return replace(super().plan(env, engine, **options), num_prompts=num_prompts)

    def _solve(self, td: TensorDict, env: RL4COEnvBase, call: Call) -> dict:
        """One part, with the best of its prompts."""
        given = td.get(PROMPT, None)
        if given is not None:
            self._check_given(given, td)
            return self._with_prompt(td, env, call, given)
        options = call.options
        with self.encoder.choosing(td, call.num_prompts) as choices:
            if choices.shape[1] > 1 and (
                options.get("actions") is not None
                or options.get("return_hidden")
                or not options.get("calc_reward", True)
            ):
                raise ValueError(
                    "num_prompts > 1 compares rewards, so it goes with calc_reward=True and "
                    "without actions or return_hidden."
                )
            first, *others = choices.unbind(1)
            best = self._with_prompt(td, env, call, first)
            for rank, prompt in enumerate(others, 1):
                own = replace(call, seed=call.seed + (rank << 40))  # instances count up from it
                best = _better(best, self._with_prompt(td, env, own, prompt))
        return best

    def _with_prompt(self, td: TensorDict, env: RL4COEnvBase, call: Call, prompt: Tensor) -> dict:
        return super()._solve(td.copy().set(PROMPT, prompt), env, call) | {PROMPT: prompt}

    def explain(self, td: TensorDict) -> "Explanation":
        """Which keys are near, how near, and which prompt each reset instance takes."""
        if self.pool.num_prompts == 1 and not self.pool.has_keys:
            only = torch.zeros(*td.batch_size, 1, dtype=torch.long, device=self.pool.keys.device)
            return Explanation(
                only, torch.full_like(only, torch.nan, dtype=torch.float), only[:, 0]
            )
        found = self.pool.distances(self.encoder.features(td)[0])
        distance, order = found.sort(dim=-1, stable=True)
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


def bare(policy: AttentionModelPolicy) -> AttentionModelPolicy:
    """The backbone: of a prompted policy its own, otherwise the policy itself."""
    if isinstance(policy, PromptedPolicy):
        return policy.backbone
    if not isinstance(policy, AttentionModelPolicy):
        raise TypeError(
            f"A backbone is an attention policy, such as load_backbone reads, got {policy!r:.80}."
        )
    return policy


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
