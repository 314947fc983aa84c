"""PromptedEncoder: the stock encoder's layers, run on the nodes and the prompt's tokens."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rl4co.models.common.constructive import AutoregressiveEncoder
from rl4co.models.nn.graph.attnnet import MultiHeadAttentionLayer
from rl4co.models.zoo.am.encoder import AttentionModelEncoder
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.policy.features import get_feature, instance_features
from rl4co_prompt.policy.pool import PromptPool

PROMPT = "prompt"  # key of the TensorDict that carries the chosen prompts, [batch]


class PromptedEncoder(AutoregressiveEncoder):
    """Adapts a stock attention encoder to each instance by the prompt of its nearest key.

    Layer l receives D tokens after the current sequence (Sec. 3.4). Tokens stay in the sequence,
    so they take part in the attention and in the norms of all later layers; the decoder gets the
    nodes only. A ``prompt`` entry in the TensorDict overrides the choice.

    Args:
        encoder: the frozen encoder, unchanged.
        pool: keys and prompts of the encoder's depth and width.
    """

    def __init__(self, encoder: AttentionModelEncoder, pool: PromptPool):
        super().__init__()
        check_promptable(encoder, pool)
        self.encoder = encoder
        self.pool = pool
        self._plain_pass: tuple[Tensor, Tensor] | None = None

    def forward(self, td: TensorDict) -> tuple[Tensor, Tensor]:
        """-> hidden and initial embeddings, both [batch, node, embed]"""
        pool = self.pool
        if pool.num_tokens == 0:
            return self.encoder(td)
        chosen = td.get(PROMPT, None)
        if chosen is not None and self._plain_pass is not None:
            plain, embedded = self._plain_pass
        elif chosen is not None and pool.gate is None:  # no plain pass needed
            embedded = self.encoder.init_embedding(td)
            return self.prompted(embedded, pool(chosen)), embedded
        else:
            features, plain, embedded = self.features(td)
            chosen = pool.select(features)[:, 0] if chosen is None else chosen
        hidden = self.prompted(embedded, pool(chosen))
        if pool.gate is not None:
            hidden = plain + pool.gate[chosen, None, None] * (hidden - plain)
        return hidden, embedded

    def prompted(self, embedded: Tensor, prompt: Tensor) -> Tensor:
        """[batch, node, embed], [batch, layer, token, embed] -> [batch, node, embed]"""
        hidden = embedded
        for layer, tokens in zip(self.encoder.net.layers, prompt.unbind(1), strict=True):
            hidden = layer(torch.cat((hidden, tokens), 1))
        return hidden[:, : embedded.shape[1]]

    def features(self, td: TensorDict) -> tuple[Tensor, Tensor, Tensor]:
        """Features, hidden and initial embeddings of the plain pass."""
        return instance_features(self.encoder, td, get_feature(self.pool.feature))

    @contextmanager
    def choosing(self, td: TensorDict, num_prompts: int = 1) -> Iterator[Tensor]:
        """The nearest prompts, best first, [batch, num_prompts].

        Inside, passes over ``td`` with one of them reuse the plain pass that they came from.
        """
        if num_prompts < 1:
            raise ValueError(f"num_prompts must be at least 1, got {num_prompts}.")
        single = self.pool.num_prompts == 1 or self.pool.num_tokens == 0  # no choice, no pass
        if single and self.pool.gate is None:
            yield torch.zeros(*td.batch_size, 1, dtype=torch.long, device=self.pool.keys.device)
            return
        features, *plain_pass = self.features(td)
        self._plain_pass = (plain_pass[0], plain_pass[1])
        try:
            yield self.pool.select(features, num_prompts)
        finally:
            self._plain_pass = None


def check_promptable(encoder: AttentionModelEncoder, pool: PromptPool) -> None:
    """Raise a one-sentence error when an encoder cannot take the pool's prompts."""
    layers = getattr(getattr(encoder, "net", None), "layers", None)
    if layers is None or not all(isinstance(layer, MultiHeadAttentionLayer) for layer in layers):
        raise TypeError(
            f"{type(encoder).__name__} can't be prompted; the backbone needs RL4CO's attention "
            "encoder (init_embedding, then net.layers of MultiHeadAttentionLayer)."
        )
    depth, width = len(layers), layers[0][0].module.embed_dim
    if (depth, width) != (pool.num_layers, pool.embed_dim):
        raise ValueError(
            f"The pool is for {pool.num_layers} layers of width {pool.embed_dim}, the backbone has "
            f"{depth} of width {width}; make the pool with PromptPool.for_backbone(backbone)."
        )
