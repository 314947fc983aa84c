"""The feature of an instance: statistics of the plain encoder pass (Sec. 3.3).

The paper and its code differ. ``paper`` takes the mean over nodes of each layer's residual sum
and standardises it element by element; ``code``, by which the published numbers were made, takes
mean and standard deviation of the attention output alone and divides by the L2 norm.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from rl4co.models.zoo.am.encoder import AttentionModelEncoder
from tensordict import TensorDict
from torch import Tensor


@dataclass(frozen=True)
class Feature:
    """How one layer is pooled, and how the whole vector is scaled.

    Args:
        pools: statistics of a layer, each ``(residual sum, attention) -> [batch, embed]``.
        unit_norm: divide the vector by its L2 norm.
        standardise: subtract the mean and divide by the deviation of the key instances.
    """

    pools: tuple[Callable[[Tensor, Tensor], Tensor], ...]
    unit_norm: bool = False
    standardise: bool = False

    def dim(self, num_layers: int, embed_dim: int) -> int:
        return len(self.pools) * num_layers * embed_dim


def _attention_mean(total: Tensor, attention: Tensor) -> Tensor:
    return attention.mean(1)


def _attention_deviation(total: Tensor, attention: Tensor) -> Tensor:
    return attention.std(1)


def _total_mean(total: Tensor, attention: Tensor) -> Tensor:
    return total.mean(1)


FEATURES = {
    "code": Feature((_attention_mean, _attention_deviation), unit_norm=True),
    "paper": Feature((_total_mean,), standardise=True),
}


def get_feature(name: str) -> Feature:
    """A feature by its name."""
    if name not in FEATURES:
        raise ValueError(f"Unknown feature {name!r}; use one of {', '.join(FEATURES)}.")
    return FEATURES[name]


@torch.no_grad()
def instance_features(
    encoder: AttentionModelEncoder, td: TensorDict, feature: Feature
) -> tuple[Tensor, Tensor, Tensor]:
    """One plain pass through a stock RL4CO encoder.

    Returns:
        features [batch, feature], before standardising and in full precision; the encoder's
        output and the initial embeddings, both [batch, node, embed].
    """
    with torch.autocast(next(encoder.parameters()).device.type, enabled=False):
        embedded = hidden = encoder.init_embedding(td)
        pooled: list[list[Tensor]] = [[] for _ in feature.pools]
        for attend, norm, feed_forward, final_norm in encoder.net.layers:
            attention = attend.module(hidden)  # the skip connection's inside
            total = hidden + attention
            for column, pool in zip(pooled, feature.pools, strict=True):
                column.append(pool(total, attention))
            hidden = final_norm(feed_forward(norm(total)))
        vector = torch.cat([part for column in pooled for part in column], -1)
        return (F.normalize(vector, dim=-1) if feature.unit_norm else vector), hidden, embedded
