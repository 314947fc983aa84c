"""Which of RL4CO's context embeddings take all rollouts of an instance at once.

Several read their state right only as rows, [batch * start], as in RL4CO's loop of one rollout;
some of them squeeze, and so lose a batch of one.
"""

from rl4co.models.nn.env_embeddings import context
from rl4co.models.zoo.am.decoder import AttentionModelDecoder

_GRID = (
    context.TSPContext,
    context.VRPContext,
    context.VRPTWContext,
    context.PCTSPContext,
    context.OPContext,
    context.MTVRPContext,
    context.SMTWTPContext,
    context.MDCPDPContext,
)
_SQUEEZING = (context.PDPContext, context.SVRPContext)


def takes_grid(decoder: AttentionModelDecoder, batch: int, starts: int) -> bool:
    """Whether queries can be asked for [batch, start] states that share their nodes."""
    kind = type(decoder.context_embedding)
    return kind in _GRID or (kind in _SQUEEZING and batch > 1 and starts > 1)
