"""Muon: an optimizer that takes equal steps in all directions of a weight matrix."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch import Tensor
from torch.optim import Optimizer

# Jordan et al. (2024): an odd polynomial whose repeated use brings singular values close to 1.
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
REPEATS = 5
NARROWEST = 16  # matrices with fewer rows or columns, such as embeddings of points, are Adam's


class Muon(Optimizer):
    """Momentum with orthogonalised steps for matrices, Adam for all other weights.

    A matrix moves by the nearest orthogonal matrix to its momentum (Jordan et al., 2024), scaled
    to the size of Adam's steps (Liu et al., 2025), so that one learning rate serves both.

    Args:
        params: parameters or groups of them.
        lr: learning rate, of the size that suits AdamW.
        momentum: of the matrices.
        betas: of the other weights.
        eps: of the other weights.
        weight_decay: of the matrices alone, apart from the gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        if lr < 0 or weight_decay < 0:
            raise ValueError(f"lr and weight_decay must not be negative: {lr}, {weight_decay}.")
        if not all(0 <= x < 1 for x in (momentum, *betas)):
            raise ValueError(f"momentum and betas must lie in [0, 1), got {momentum}, {betas}.")
        options = {"lr": lr, "momentum": momentum, "betas": tuple(betas), "eps": eps}
        super().__init__(params, options | {"weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            matrices: dict[Any, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                if weight.ndim == 2 and min(weight.shape) >= NARROWEST:
                    matrices[weight.shape, weight.device, weight.dtype].append(weight)
                else:
                    self._adam(weight, group)
            for weights in matrices.values():
                self._orthogonal(weights, group)
        return loss

    def _orthogonal(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Step of matrices of one shape."""
        beta, steps = group["momentum"], []
        for weight in weights:
            state, gradient = self.state[weight], weight.grad
            assert gradient is not None
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            state["momentum"].lerp_(gradient, 1 - beta)
            steps.append(torch.lerp(gradient, state["momentum"], beta))  # Nesterov's
        size = 0.2 * max(weights[0].shape) ** 0.5 * group["lr"]
        for weight, step in zip(weights, orthogonal(torch.stack(steps)), strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(step, alpha=-size)

    def _adam(self, weight: Tensor, group: dict[str, Any]) -> None:
        state, (fast, slow) = self.state[weight], group["betas"]
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["step"] += 1
        state["mean"].lerp_(weight.grad, 1 - fast)
        state["square"].mul_(slow).addcmul_(weight.grad, weight.grad, value=1 - slow)
        steps = float(state["step"])
        scale = (state["square"] / (1 - slow**steps)).sqrt_().add_(group["eps"])
        weight.addcdiv_(state["mean"], scale, value=-group["lr"] / (1 - fast**steps))


def orthogonal(matrices: Tensor) -> Tensor:
    """About U V^T of each U S V^T, singular values between 0.7 and 1.2. [batch, row, column]"""
    a, b, c = POLYNOMIAL
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-30)
    for _ in range(REPEATS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x
