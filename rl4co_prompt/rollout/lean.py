"""The lean path in plain torch: tours of CVRP and TSP on [batch, start] tensors, on any device."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from torch import Tensor

from rl4co_prompt.rollout import noise
from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.faults import check_tours
from rl4co_prompt.rollout.pointer import TOLERANCE, PointerModel

CHECK_EVERY = 8  # steps between two looks at whether all tours are done: each waits for the device
CLOSED = 1e9  # need of a node that must not be visited
HIDDEN = -1e30  # logit of a masked node; finite, for tours that are done and have no node left


class Walk:
    """Where the tours are; moves and masks are those of RL4CO's environments.

    A node is allowed if its need, the demand or CLOSED, fits beside the load.
    """

    def __init__(self, model: PointerModel, num_starts: int):
        batch, nodes = model.key.shape[:2]
        device, dtype = model.key.device, model.key.dtype
        self.depot = model.has_depot
        self.steps = 0
        rows = torch.arange(batch, device=device)[:, None] * model.query.shape[1]
        self.offset = rows  # of an instance in flat tables
        begin = rows + (0 if self.depot else nodes)  # the empty tour's row
        self.current = self.first = begin.expand(batch, num_starts)
        self.used = torch.zeros(batch, num_starts, 1, device=device, dtype=dtype)
        self.need = torch.zeros(batch, num_starts, nodes, device=device, dtype=dtype)
        self.limit = torch.ones(batch, 1, 1, device=device, dtype=dtype)
        if model.demand is not None and model.capacity is not None:
            self.need += model.demand[:, None]
            self.limit = model.capacity[:, None, None] + TOLERANCE
            self.demand = model.demand.reshape(-1, 1)
            customer = torch.ones_like(model.demand)
            customer[:, 0] = 0
            self.customer = customer.reshape(-1, 1)
            self.depot_need = self.need[..., :1]
            self.depot_need.fill_(CLOSED)

    def allowed(self) -> Tensor:
        """[batch, start, node]"""
        return self.need + self.used <= self.limit

    def move(self, action: Tensor) -> None:
        """[batch, start]"""
        self.current = action + self.offset
        if self.depot:
            self.depot_need.zero_()  # closed again by the next line for those who go there
            self.used = torch.addcmul(
                self.demand[self.current], self.used, self.customer[self.current]
            )
        elif self.steps == 0:
            self.first = self.current
        self.need.scatter_(-1, action[..., None], CLOSED)
        self.steps += 1

    def finished(self) -> Tensor:
        """[batch, start]; a CVRP tour that never was at the depot still has to go there."""
        return (self.need[..., 1 if self.depot else 0 :] >= CLOSED).all(-1)


@dataclass
class States:
    """What the queries of some tours or steps depend on.

    Args:
        current, first: [batch, query] flat rows of the model; ``first`` in TSP.
        used: [batch, query, 1], in CVRP.
        allowed: [batch, query, node]
    """

    current: Tensor
    first: Tensor | None
    used: Tensor | None
    allowed: Tensor

    @classmethod
    def of(cls, walk: Walk) -> "States":
        first, used = (None, walk.used) if walk.depot else (walk.first, None)
        return cls(walk.current, first, used, walk.allowed())

    @classmethod
    def stack(cls, states: list["States"]) -> "States":
        """Steps side by side. [batch, start] each -> [batch, start * step]"""

        def join(name: str) -> Tensor | None:
            parts = [getattr(state, name) for state in states]
            return None if parts[0] is None else torch.stack(parts, 2).flatten(1, 2)

        return cls(*(join(name) for name in ("current", "first", "used", "allowed")))  # type: ignore[arg-type]


class Heads:
    """A model laid out for many steps: flat queries, keys and values split into heads."""

    def __init__(self, model: PointerModel):
        self.heads, self.mask_inner = model.heads, model.mask_inner
        self.key, self.value = (
            x.unflatten(-1, (model.heads, -1)).transpose(1, 2).contiguous()
            for x in (model.key, model.value)
        )  # [batch, head, node, width]
        self.pointer = model.pointer.transpose(1, 2)
        self.bias = model.bias[:, None]
        query = model.query
        if model.slope is not None and model.capacity is not None:
            query = query + (model.capacity[:, None] * model.slope)[:, None]
            self.slope = -model.slope[:, None]  # per unit of load
        self.query = query.flatten(0, 1)
        self.first = None if model.first is None else model.first.flatten(0, 1)
        self.zero = model.key.new_zeros(())
        self.hidden = model.key.new_full((), HIDDEN)

    def log_probs(self, states: States, decoding: Decoding) -> Tensor:
        """[batch, query, node], about -1e30 where masked."""
        query = self.query[states.current]
        if states.used is not None:
            query = torch.addcmul(query, states.used, self.slope)
        if states.first is not None and self.first is not None:
            query = query + self.first[states.first]
        query = query.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        mask = torch.where(states.allowed, self.zero, self.hidden)
        glimpse = F.scaled_dot_product_attention(
            query, self.key, self.value, mask[:, None] if self.mask_inner else None, scale=1.0
        )
        logits = torch.baddbmm(self.bias, glimpse.transpose(1, 2).flatten(2), self.pointer)
        if decoding.clip > 0:
            logits = torch.tanh(logits) * (decoding.clip / decoding.temperature)
        elif decoding.temperature != 1:
            logits = logits / decoding.temperature
        return (logits + mask).log_softmax(-1)


def choose(log_probs: Tensor, uniform: Tensor | None) -> tuple[Tensor, Tensor]:
    """Greedy without uniform numbers, else where they fall. [..., node], [...] -> [...]

    Returns:
        the choice's log-probability and the choice.
    """
    if uniform is None:
        best = log_probs.max(-1)
        return best.values, best.indices
    shares = log_probs.exp()
    # A scan in parallel may rise a little at a masked node, so those are left out.
    reached = shares.cumsum(-1) * (shares > 0)
    target = uniform[..., None] * reached.amax(-1, keepdim=True)
    action = (reached > target).byte().argmax(-1, keepdim=True)
    return log_probs.gather(-1, action)[..., 0], action[..., 0]


def tours(
    model: PointerModel,
    count: int,
    starts: Tensor | None,
    states: Tensor | None,
    decoding: Decoding,
) -> tuple[Tensor, Tensor]:
    """Roll out. -> actions, log-probabilities [batch, start, step]

    Args:
        count: rollouts of each instance.
        starts: [batch, start] first nodes, or None where the policy chooses them.
        states: [batch, start] of the random numbers; None for greedy decoding.
    """
    if model.demand is not None and model.capacity is not None:
        check_tours(not bool((model.demand <= model.capacity[:, None] + TOLERANCE).all()), False)
    heads, walk = Heads(model), Walk(model, count)
    actions: list[Tensor] = []
    log_probs: list[Tensor] = []
    numbers: list[Tensor] = []
    least = model.key.shape[1] - 1  # no tour is done before
    for t in range(model.longest):
        if t == 0 and starts is not None:
            action, log_prob = starts, torch.zeros_like(starts, dtype=model.key.dtype)
        else:
            if states is not None and not numbers:
                numbers = list(noise.uniform(states, t, t + CHECK_EVERY).unbind(-1))[::-1]
            all_log_probs = heads.log_probs(States.of(walk), decoding)
            log_prob, action = choose(all_log_probs, numbers.pop() if numbers else None)
        walk.move(action)
        actions.append(action)
        log_probs.append(log_prob)
        if t >= least and t % CHECK_EVERY == 0 and bool(walk.finished().all()):
            break
    out, chosen = torch.stack(actions, -1), torch.stack(log_probs, -1)
    check_tours(not bool(walk.finished().all()), bool(chosen.isnan().any()))
    return end_tours(out, chosen, model.has_depot)


def end_tours(actions: Tensor, log_probs: Tensor, depot: bool) -> tuple[Tensor, Tensor]:
    """Cut tours after the last step of the longest; CVRP's others wait at the depot.

    A CVRP tour ends when all customers are served and the depot was seen.
    """
    if not depot:
        return actions, log_probs
    step = torch.arange(actions.shape[-1], device=actions.device).expand_as(actions)
    nodes = int(actions.max()) + 1
    visit = torch.full((*actions.shape[:2], nodes), -1, device=actions.device)
    visit = visit.scatter_reduce(-1, actions, step, "amin", include_self=False)
    under_way = step <= visit[..., 1:].amax(-1, keepdim=True)
    actions, log_probs = actions * under_way, log_probs * under_way
    one_route = ((actions != 0) == under_way).all(-1)  # has to go home, too
    steps = int((under_way.sum(-1) + one_route).max())
    if steps > actions.shape[-1]:
        actions, log_probs = (F.pad(x, (0, 1)) for x in (actions, log_probs))
    return actions[..., :steps], log_probs[..., :steps]


def log_probs_of(
    heads: Heads, walk: Walk, actions: Tensor, chooses: bool, decoding: Decoding
) -> Tensor:
    """Log-probabilities of the next steps of recorded tours; the walk moves on.

    Args:
        actions: [batch, start, step], the steps that follow.
        chooses: whether the policy chose the first node itself.
    """
    seen = []
    forced = walk.steps == 0 and not chooses
    for action in actions.unbind(-1):
        seen.append(States.of(walk))
        walk.move(action)
    log_probs = heads.log_probs(States.stack(seen), decoding)
    picked = log_probs.gather(-1, actions.flatten(1)[..., None]).view(actions.shape)
    if forced:
        picked = torch.cat((torch.zeros_like(picked[..., :1]), picked[..., 1:]), -1)
    return picked


def tour_lengths(locs: Tensor, actions: Tensor, depot: bool) -> Tensor:
    """Of closed tours, from the depot if there is one. -> [batch, start]

    Args:
        locs: [batch, node, 2]
        actions: [batch, start, step]
    """
    offset = torch.arange(len(locs), device=locs.device).view(-1, 1, 1) * locs.shape[1]
    points = locs.flatten(0, 1)[actions + offset]
    if depot:
        home = locs[:, None, None, 0].expand(*actions.shape[:2], 1, 2)
        points = torch.cat((home, points), 2)
    return (points - points.roll(-1, 2)).norm(dim=-1).sum(-1)
