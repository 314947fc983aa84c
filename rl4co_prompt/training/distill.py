"""Distillation: a policy learned from teachers, each the specialist of some instances."""

import math

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.am import AttentionModelPolicy
from tensordict import TensorDict
from torch import Tensor, nn

from rl4co_prompt.policy.backbone import load_backbone
from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.rollout import compiled, lean, noise
from rl4co_prompt.rollout.budget import budget_bytes
from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.layout import join_starts
from rl4co_prompt.rollout.lean import Heads, States, Walk
from rl4co_prompt.rollout.pointer import PointerModel, pointer_model, why_not_lean

LEAST = -50.0  # log-probabilities below are taken for this, masked nodes among them


class Teacher:
    """A frozen policy and the instances that it teaches.

    Args:
        policy: an attention policy, or the file of one for :func:`load_backbone`.
        sizes: fewest and most customers.
        capacities: least and largest vehicle capacity in units of demand; any by default.
        **options: of :func:`load_backbone`.
    """

    def __init__(
        self,
        policy: AttentionModelPolicy | str | Path,
        sizes: Sequence[int],
        capacities: Sequence[float] = (0, math.inf),
        **options: Any,
    ):
        for name, (low, high) in (("sizes", sizes), ("capacities", capacities)):
            if not 0 <= low <= high:
                raise ValueError(f"{name} must be the least and the largest, got {low}, {high}.")
        if isinstance(policy, str | Path):
            policy = load_backbone(policy, **options)
        self.policy = policy.eval().requires_grad_(False)
        self.sizes, self.capacities = tuple(sizes), tuple(capacities)

    def teaches(self, instances: TensorDict) -> bool:
        """Whether all of a batch are in its region."""
        low, high = self.sizes
        least, largest = self.capacities
        if not low <= instances["locs"].shape[-2] <= high:
            return False
        capacity = instances.get("capacity", None)
        if capacity is None:
            return (least, largest) == (0, math.inf)
        return bool(((capacity >= least) & (capacity <= largest)).all())


class Distillation(nn.Module):
    """The loss of a student against teachers: the divergence of their choices along whole tours.

    Half of the tours are the teacher's, half the student's own, all sampled from random starts.
    At first the student's layers also follow the teacher's, through learned projections.

    Args:
        teachers: the first that teaches a batch is taken.
        num_tours: of each instance.
        teacher_share: part of them that the teacher makes.
        step_share: part of the steps, drawn at random, whose choices are compared.
        feature_weight: of the layers' error, in units of the teacher's variance.
        feature_until: fraction of the run at which that weight, falling linearly, is zero.
    """

    def __init__(
        self,
        teachers: Sequence[Teacher],
        num_tours: int = 8,
        teacher_share: float = 0.5,
        step_share: float = 0.5,
        feature_weight: float = 0.0,
        feature_until: float = 1.0,
    ):
        super().__init__()
        if not teachers:
            raise ValueError("Distillation needs at least one teacher, got none.")
        if num_tours < 1 or not 0 <= teacher_share <= 1 or not 0 < step_share <= 1:
            raise ValueError(
                "num_tours must be at least 1, teacher_share lie in [0, 1] and step_share in "
                f"(0, 1], got {num_tours}, {teacher_share} and {step_share}."
            )
        # A tuple, so that no teacher's weights are among the state that checkpoints keep.
        self.teachers = tuple(teachers)
        self.num_tours, self.step_share = num_tours, step_share
        self.from_teacher = round(num_tours * teacher_share)
        self.feature_weight, self.feature_until = feature_weight, feature_until
        self.projections = nn.ModuleList()

    def prepare(self, student: nn.Module) -> None:
        """Make the projections from the student's layers to the teachers'."""
        if not self.feature_weight:
            return
        if isinstance(student, PromptedPolicy):
            raise ValueError("feature_weight is for a whole policy; prompts learn from tours.")
        layers, width = _shape(student)
        for teacher in self.teachers:
            depth, wanted = _shape(teacher.policy)
            if depth != layers:
                raise ValueError(
                    f"feature_weight needs a teacher of {layers} layers as the student has, got "
                    f"{depth}; set it to 0."
                )
            self.projections.append(
                nn.ModuleList(nn.Linear(width, wanted, bias=False) for _ in range(layers))
            )

    def teacher_of(self, instances: TensorDict) -> Teacher | None:
        """Of a batch as the generator drew it; None if no one teaches it."""
        return next((teacher for teacher in self.teachers if teacher.teaches(instances)), None)

    def loss(
        self,
        student: AttentionModelPolicy,
        teacher: Teacher,
        td: TensorDict,
        env: RL4COEnvBase,
        progress: float = 1.0,
    ) -> dict[str, Tensor]:
        """Of reset instances; ``progress`` is the part of the run that is over.

        Returns:
            ``loss``; ``kl`` per choice; ``features``, if they count; the student's ``prompt``.
        """
        reason = why_not_lean(env, student.decoder)
        if reason is not None:
            raise ValueError(f"Distillation is for RL4CO's CVRP and TSP alone: {reason}.")
        chosen = {}
        if isinstance(student, PromptedPolicy):
            chosen = {PROMPT: student.explain(td).prompts}
            td = td.copy().set(PROMPT, chosen[PROMPT])
        model = teacher.policy.to(td.device)
        weight = self.feature_weight * max(0.0, 1 - progress / self.feature_until)
        with torch.no_grad(), _layer_outputs(model, weight > 0) as wanted:
            theirs = pointer_model(model.decoder, model.encoder(td)[0], td, chooses=False)
        with _layer_outputs(student, weight > 0) as found:
            ours = pointer_model(student.decoder, student.encoder(td)[0], td, chooses=False)
        kl = self._divergence(ours, theirs, _decoding(student), _decoding(model))
        if weight == 0:
            return {"loss": kl, "kl": kl.detach(), **chosen}
        features = self._feature_error(teacher, found, wanted)
        loss = kl + weight * features
        return {"loss": loss, "kl": kl.detach(), "features": features.detach(), **chosen}

    def _feature_error(self, teacher: Teacher, found: list[Tensor], wanted: list[Tensor]) -> Tensor:
        """Mean over the layers, in units of the teacher's variance."""
        projections: Any = self.projections[self.teachers.index(teacher)]
        errors = [
            F.mse_loss(project(x), y) / y.var()
            for project, x, y in zip(projections, found, wanted, strict=True)
        ]
        return torch.stack(errors).mean()

    def _divergence(
        self, ours: PointerModel, theirs: PointerModel, student: Decoding, teacher: Decoding
    ) -> Tensor:
        """Mean over the choices of sampled tours."""
        with torch.no_grad():
            starts = random_starts(theirs, self.num_tours)
            first, others = starts.split((self.from_teacher, self.num_tours - self.from_teacher), 1)
            parts = [sampled_tours(theirs, first, teacher), sampled_tours(ours, others, student)]
            tours = join_starts([part for part in parts if part.shape[1]])
            states, weights = some_choices(theirs, tours, self.step_share)
            wanted = Heads(theirs).log_probs(states, teacher).clamp_min(LEAST)
        found = Heads(ours).log_probs(states, student).clamp_min(LEAST)
        divergence = (wanted.exp() * (wanted - found)).sum(-1)
        return (divergence * weights).sum() / weights.sum()


def random_starts(model: PointerModel, count: int) -> Tensor:
    """First nodes of each instance, all different while there are enough. -> [batch, count]"""
    batch, nodes = model.key.shape[:2]
    depot = int(model.has_depot)
    order = torch.rand(batch, nodes - depot, device=model.key.device).argsort(1) + depot
    return order[:, torch.arange(count, device=order.device) % order.shape[1]]


def sampled_tours(model: PointerModel, starts: Tensor, decoding: Decoding) -> Tensor:
    """[batch, start] -> [batch, start, step]"""
    if starts.shape[1] == 0:
        return starts[..., None]
    model = model.with_weights([None if w is None else w.detach() for w in model.weights()])
    batch, count = starts.shape
    rows, columns = (torch.arange(size, device=starts.device) for size in (batch, count))
    states = noise.start_states(noise.draw_seed(), rows, columns)
    budget = budget_bytes(None, starts.device)
    run = lean.tours if compiled.why_not_compiled(model, budget) else compiled.tours
    return run(model, count, starts, states, decoding)[0]


def some_choices(model: PointerModel, tours: Tensor, share: float) -> tuple[States, Tensor]:
    """States before some of the tours' steps, and 1 where the step is a choice, else 0.

    The first node is given, and a tour that has served all customers waits.

    Args:
        tours: [batch, start, step]
        share: of the steps that are looked at, drawn at random.
    """
    steps = tours.shape[-1] - 1
    taken = torch.rand(steps).argsort()[: max(1, round(share * steps))] + 1
    wanted = set(taken.tolist())
    walk, seen = Walk(model, tours.shape[1]), []
    for i, action in enumerate(tours.unbind(-1)):
        if i in wanted:
            seen.append(States.of(walk))
        walk.move(action)
    states = States.stack(seen)
    order = taken.sort().values.to(tours.device)
    to_come = (tours != 0).flip(-1).cumsum(-1).flip(-1)
    under_way = (to_come > 0 if model.has_depot else to_come >= 0)[..., order].flatten(1)
    choice = under_way & (states.allowed.sum(-1) > 1)
    return states, choice.float()


@contextmanager
def _layer_outputs(policy: AttentionModelPolicy, wanted: bool) -> Iterator[list[Tensor]]:
    """What the encoder's layers put out while inside."""
    outputs: list[Tensor] = []
    handles = []
    if wanted:
        for layer in policy.encoder.net.layers:
            handles.append(layer.register_forward_hook(lambda _, __, out: outputs.append(out)))
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def _shape(policy: AttentionModelPolicy) -> tuple[int, int]:
    """Layers and width of the encoder."""
    layers = policy.encoder.net.layers
    return len(layers), layers[0][0].module.embed_dim


def _decoding(policy: AttentionModelPolicy) -> Decoding:
    return Decoding(sampling=True, clip=policy.tanh_clipping, temperature=policy.temperature)
