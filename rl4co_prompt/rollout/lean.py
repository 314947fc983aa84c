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


class Walk:
    """Where the tours are; masks and moves are those of RL4CO's environments."""

    def __init__(self, model: PointerModel, num_starts: int):
        batch, nodes = model.key.shape[:2]
        device = model.key.device
        self.model = model
        empty = 0 if model.has_depot else nodes  # row of the query
        self.current = torch.full((batch, num_starts), empty, device=device)
        self.first = self.current
        self.open = torch.ones(batch, num_starts, nodes, dtype=torch.bool, device=device)
        self.used = torch.zeros(batch, num_starts, device=device, dtype=model.key.dtype)
        self.steps = 0
        if model.demand is not None and model.capacity is not None:
            self.demand, self.capacity = model.demand, model.capacity[:, None]
            self.limit = self.capacity[..., None] + TOLERANCE

    def room(self) -> Tensor:
        return self.capacity - self.used

    def allowed(self) -> Tensor:
        """[batch, start, node]"""
        if not self.model.has_depot:
            return self.open
        allowed = self.demand[:, None] + self.used[..., None] <= self.limit
        allowed &= self.open
        # Not to the depot from the depot while a customer fits.
        allowed[..., 0] = (self.current != 0) | ~allowed[..., 1:].any(-1)
        return allowed

    def move(self, action: Tensor) -> None:
        """[batch, start]"""
        if self.model.has_depot:
            self.used = (self.used + self.demand.gather(1, action)) * (action != 0)
            self.open.scatter_(-1, action[..., None], (action == 0)[..., None])
        else:
            self.first = action if self.steps == 0 else self.first
            self.open = self.open.scatter(-1, action[..., None], False)
        self.current = action
        self.steps += 1

    def finished(self) -> Tensor:
        """[batch, start]; a CVRP tour that never was at the depot still has to go there."""
        return ~self.open[..., 1 if self.model.has_depot else 0 :].any(-1)


@dataclass
class States:
    """What the queries of some tours or steps depend on.

    Args:
        current, first: [batch, query] rows of the model; ``first`` in TSP.
        room: [batch, query], in CVRP.
        allowed: [batch, query, node]
    """

    current: Tensor
    first: Tensor | None
    room: Tensor | None
    allowed: Tensor

    @classmethod
    def of(cls, walk: Walk) -> "States":
        depot = walk.model.has_depot
        return cls(
            walk.current,
            None if depot else walk.first,
            walk.room() if depot else None,
            walk.allowed(),
        )

    @classmethod
    def stack(cls, states: list["States"]) -> "States":
        """Steps side by side. [batch, start] each -> [batch, start * step]"""

        def join(name: str) -> Tensor | None:
            parts = [getattr(state, name) for state in states]
            return None if parts[0] is None else torch.stack(parts, 2).flatten(1, 2)

        return cls(*(join(name) for name in ("current", "first", "room", "allowed")))  # type: ignore[arg-type]


class Heads:
    """A model's keys and values split into heads, for many steps."""

    def __init__(self, model: PointerModel):
        self.model = model
        self.key, self.value = (
            x.unflatten(-1, (model.heads, -1)).transpose(1, 2).contiguous()
            for x in (model.key, model.value)
        )  # [batch, head, node, width]
        self.pointer = model.pointer.transpose(1, 2)
        self.bias = model.bias[:, None]
        rows = torch.arange(len(model), device=model.key.device)[:, None]
        self.offset = rows * model.query.shape[1]
        self.query = model.query.flatten(0, 1)
        self.first = None if model.first is None else model.first.flatten(0, 1)
        self.zero = model.key.new_zeros(())
        self.hidden = model.key.new_full((), -torch.inf)

    def log_probs(self, states: States, decoding: Decoding) -> Tensor:
        """[batch, query, node], -inf where masked."""
        model = self.model
        query = self.query[states.current + self.offset]
        if states.room is not None and model.slope is not None:
            query = torch.addcmul(query, states.room[..., None], model.slope[:, None])
        if states.first is not None and self.first is not None:
            query = query + self.first[states.first + self.offset]
        query = query.unflatten(-1, (model.heads, -1)).transpose(1, 2)
        mask = torch.where(states.allowed, self.zero, self.hidden)
        glimpse = F.scaled_dot_product_attention(
            query, self.key, self.value, mask[:, None] if model.mask_inner else None, scale=1.0
        )
        glimpse = glimpse.transpose(1, 2).flatten(2)
        logits = torch.baddbmm(self.bias, glimpse, self.pointer)
        if decoding.clip > 0:
            logits = torch.tanh(logits) * (decoding.clip / decoding.temperature)
        elif decoding.temperature != 1:
            logits = logits / decoding.temperature
        return (logits + mask).log_softmax(-1)


def choose(log_probs: Tensor, uniform: Tensor | None) -> Tensor:
    """Greedy without uniform numbers, else where they fall. [..., node], [...] -> [...]"""
    if uniform is None:
        return log_probs.argmax(-1)
    shares = log_probs.exp()
    # A scan in parallel may rise a little at a masked node, so those are left out.
    reached = shares.cumsum(-1) * (shares > 0)
    target = uniform * reached.amax(-1)
    return (reached > target[..., None]).byte().argmax(-1)


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
            action = choose(all_log_probs, numbers.pop() if numbers else None)
            log_prob = all_log_probs.gather(-1, action[..., None])[..., 0]
        walk.move(action)
        actions.append(action)
        log_probs.append(log_prob)
        if t >= least and t % CHECK_EVERY == 0 and bool(walk.finished().all()):
            break
    out, chosen = torch.stack(actions, -1), torch.stack(log_probs, -1)
    check_tours(not bool(walk.finished().all()), bool(chosen.isnan().any()))
    steps = tour_steps(out, model.has_depot)
    if steps > out.shape[-1]:  # the last tour has yet to come to the depot
        out, chosen = (F.pad(x, (0, steps - x.shape[-1])) for x in (out, chosen))
    return out[..., :steps], chosen[..., :steps]


def tour_steps(actions: Tensor, depot: bool) -> int:
    """Steps until the last tour is done: all customers served, and the depot seen once."""
    if not depot:
        return actions.shape[-1]
    served = actions.shape[-1] - (actions != 0).flip(-1).byte().argmax(-1)
    one_route = (actions != 0).sum(-1) == served
    return int((served + one_route).max())


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
