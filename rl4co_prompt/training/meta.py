"""Meta-learning of whole policies, the paper's rivals: Meta-POMO (Reptile) and Omni (MAML)."""

from contextlib import nullcontext
from typing import Any

import torch

from tensordict import TensorDict
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from rl4co_prompt.rollout.starts import rollout_options
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.task import Task
from rl4co_prompt.training.batches import seeded
from rl4co_prompt.training.multi_task import MultiTaskPOMO


class MetaPOMO(MultiTaskPOMO):
    """Reptile (Manchanda et al., 2022): after an epoch on one task, weights go a part of the way.

    An epoch is as many inner steps as it has batches, with an optimizer of its own; then
    theta <- theta + alpha (theta_k - theta), for the buffers of norms, too.

    Args:
        env, policy: as in :class:`MultiTaskPOMO`.
        alpha: of the first epoch, before its decay.
        alpha_decay: factor of every epoch.
        alpha_floor: least alpha.
        **options: of :class:`MultiTaskPOMO`. ``train_data_size`` is k times ``batch_size``, or
            k times 64 where the batch follows the size; an epoch has k inner steps at any size.
    """

    def __init__(
        self,
        env: Any,
        policy: Any,
        *args: Any,
        alpha: float = 0.99,
        alpha_decay: float = 0.999,
        alpha_floor: float = 1e-4,
        **options: Any,
    ):
        for name, value in (("alpha", alpha), ("alpha_decay", alpha_decay)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} must lie in (0, 1], got {value}.")
        if options.get("task_per", "epoch") != "epoch":
            raise ValueError("Meta-POMO has one task per epoch.")
        super().__init__(env, policy, *args, **options)
        self.alpha, self.alpha_decay, self.alpha_floor = alpha, alpha_decay, alpha_floor
        self._before: dict[str, Tensor] = {}

    def instances_of_epoch(self, task: Task) -> int:
        """Of k inner steps, in each of which every process has a batch."""
        return self.batches_of_epoch * self.batch_size_of(task) * self.trainer.world_size

    def step_size(self, epoch: int) -> float:
        """Alpha of an epoch, counted from 0."""
        return max(self.alpha_floor, self.alpha * self.alpha_decay ** (epoch + 1))

    def on_train_epoch_start(self) -> None:
        """Remember the weights and begin with a fresh optimizer."""
        self._before = {k: v.detach().clone() for k, v in self.policy.state_dict().items()}
        self.optimizers().optimizer.state.clear()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After the last batch, go back a part of the way."""
        if not self.trainer.is_last_batch:
            return
        alpha = self.step_size(self.current_epoch)
        with torch.no_grad():
            for key, value in self.policy.state_dict().items():
                if value.is_floating_point():
                    value.copy_(torch.lerp(self._before[key], value, alpha))
        self._before = {}


class Omni(MultiTaskPOMO):
    """Omni-VRP (Zhou et al., 2023): an initialisation that one inner step adapts to a task.

    Every batch has a support half for the inner step and a query half, whose loss after that
    step is minimised.

    Args:
        env, policy: as in :class:`MultiTaskPOMO`.
        second_order: part of the run, from its beginning, that differentiates through the inner
            step. It keeps RL4CO's own loop, as replayed gradients have no second derivative.
        inner_lr: of the inner step; by default that of the outer one, as it falls.
        query_weight: of the query loss; the authors keep the rest for a term that they turn off.
        **options: of :class:`MultiTaskPOMO`; one task per batch. ``batch_size`` is that of each
            half.
    """

    def __init__(
        self,
        env: Any,
        policy: Any,
        *args: Any,
        second_order: float = 0.0,
        inner_lr: float | None = None,
        query_weight: float = 0.9,
        **options: Any,
    ):
        if not 0 <= second_order <= 1:
            raise ValueError(f"second_order is a part of the run, got {second_order}.")
        options.setdefault("task_per", "batch")
        if options["task_per"] != "batch":
            raise ValueError("Omni has one task per batch.")
        if options.get("distillation") is not None:
            raise ValueError("Omni learns by rewards alone; leave out the distillation.")
        super().__init__(env, policy, *args, **options)
        self.second_order, self.inner_lr, self.query_weight = second_order, inner_lr, query_weight

    def on_fit_start(self) -> None:
        super().on_fit_start()
        optimizer = self.optimizers().optimizer
        if type(optimizer) is not torch.optim.Adam:
            raise ValueError(
                f"Omni's inner step is a step of Adam, beside an outer Adam; got the optimizer "
                f"{type(optimizer).__name__}."
            )

    def instances_of_batch(self, task: Task) -> int:
        return 2 * super().instances_of_batch(task)  # support and query

    @property
    def in_second_order(self) -> bool:
        """Whether this epoch differentiates through the inner step."""
        return self.current_epoch < self.second_order * max(self.trainer.max_epochs or 1, 1)

    def shared_step(
        self, batch: Any, batch_idx: int, phase: str, dataloader_idx: int | None = None
    ) -> dict:
        if phase != "train":
            return super().shared_step(batch, batch_idx, phase, dataloader_idx)
        half, self._reference = len(batch) // 2, None  # a validation batch may have left its own
        with seeded(self.seed, self.global_step, self.global_rank, batch_idx, device=self.device):
            weights = {n: p for n, p in self.policy.named_parameters() if p.requires_grad}
            support = self.loss_at(weights, batch[:half])["loss"]
            adapted = self.inner_step(weights, support)
            out = self.loss_at(adapted, batch[half:])
        out["loss"] = self.query_weight * out["loss"]
        return {"loss": out["loss"], **self.log_metrics(out, phase)}

    def loss_at(self, weights: dict[str, Tensor], batch: TensorDict) -> dict:
        """POMO's training loss of other weights than the policy's own."""
        td = reset(self.env, batch)
        options = rollout_options(td, self.num_starts, self.rollouts)
        count = options["num_starts" if "num_starts" in options else "num_samples"]
        plain: Any = nullcontext()
        if self.in_second_order:  # neither replays nor fused attention have a second derivative
            options["engine"], plain = "stock", sdpa_kernel(SDPBackend.MATH)
        with plain:
            out = functional_call(
                self.policy, weights, (td, self.env), {"phase": "train"} | options
            )
        reward, likelihood = (out[key].view(count, -1).T for key in ("reward", "log_likelihood"))
        self.calculate_loss(td, batch, out, reward, likelihood)
        return out | {"max_reward": reward.amax(-1)}

    def inner_step(self, weights: dict[str, Tensor], loss: Tensor) -> dict[str, Tensor]:
        """Weights after one step on the support loss.

        In second order, differentiable, and with the moments of the outer Adam, which go on; in
        first order with a fresh Adam, and such that gradients by the result are gradients by the
        weights.
        """
        through, group = self.in_second_order, self.optimizers().optimizer.param_groups[0]
        rate = group["lr"] if self.inner_lr is None else self.inner_lr
        found = torch.autograd.grad(
            loss, list(weights.values()), create_graph=through, allow_unused=True
        )
        gradients = dict(zip(weights, found, strict=True))
        adapted = {}
        for name, weight in weights.items():
            gradient = gradients[name]
            if gradient is None:
                adapted[name] = weight
            elif through:
                adapted[name] = weight - rate * self._adam_direction(weight, gradient)
            else:  # the first step of Adam
                gradient = gradient + group["weight_decay"] * weight
                step = gradient / (gradient.abs() + group["eps"])
                adapted[name] = weight - rate * step.detach()
        return adapted

    def _adam_direction(self, weight: Tensor, gradient: Tensor) -> Tensor:
        """Of the outer Adam, whose moments take the gradient in; the gradient itself at first."""
        optimizer = self.optimizers().optimizer
        state, group = optimizer.state.get(weight, {}), optimizer.param_groups[0]
        if "exp_avg" not in state:
            return gradient
        (beta1, beta2), eps = group["betas"], group["eps"]
        gradient = gradient + group["weight_decay"] * weight
        state["step"] += 1
        count = float(state["step"])
        mean = beta1 * state["exp_avg"] + (1 - beta1) * gradient
        square = beta2 * state["exp_avg_sq"] + (1 - beta2) * gradient * gradient
        # Every process has a batch of its own; the outer Adam must stay the same in all of them.
        state["exp_avg"], state["exp_avg_sq"] = (
            self.trainer.strategy.reduce(moment.detach().clone(), reduce_op="mean")
            for moment in (mean, square)
        )
        deviation = (square / (1 - beta2**count) + 1e-30).sqrt()  # no infinite slope at zero
        return mean / (1 - beta1**count) / (deviation + eps)
