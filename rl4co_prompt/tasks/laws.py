"""What customers demand and where the depot is, beyond the paper's data: the laws of CVRPLIB's X.

After Uchoa et al. (2017), whose square has a side of 1000.
"""

import re

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from torch import Generator, Tensor

DEPOTS = ("centre", "corner", "random")


class Demand(ABC):
    """The law of whole-numbered demands."""

    largest: int
    mean: float

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that :func:`demand_from_name` reads."""

    @abstractmethod
    def sample(self, customers: Tensor, rng: Generator) -> Tensor:
        """[batch, customer, 2] -> [batch, customer]"""


@dataclass(frozen=True)
class Between(Demand):
    """Uniform from ``low`` to ``high``."""

    low: int = 1
    high: int = 9

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"Demands rise from 1 or more, got {self.low}-{self.high}.")

    @property
    def largest(self) -> int:  # type: ignore[override]
        return self.high

    @property
    def mean(self) -> float:  # type: ignore[override]
        return (self.low + self.high) / 2

    @property
    def name(self) -> str:
        return f"{self.low}-{self.high}"

    def sample(self, customers: Tensor, rng: Generator) -> Tensor:
        return _between(customers.shape[:-1], self.low, self.high, rng)


@dataclass(frozen=True)
class Quadrants(Demand):
    """Up to 50 in two opposite quarters of the square, from 51 to 100 in the others."""

    largest, mean, name = 100, 50.5, "quadrants"

    def sample(self, customers: Tensor, rng: Generator) -> Tensor:
        small = _between(customers.shape[:-1], 1, 50, rng)
        right, above = (customers > 0.5).unbind(-1)
        return small + 50 * (right != above)


@dataclass(frozen=True)
class ManySmall(Demand):
    """From 1 to 10 for 70 to 95 % of an instance's customers, from 50 to 100 for the others."""

    largest, mean, name = 100, 0.825 * 5.5 + 0.175 * 75, "many-small"

    def sample(self, customers: Tensor, rng: Generator) -> Tensor:
        shape = customers.shape[:-1]
        share = 0.7 + 0.25 * torch.rand((*shape[:-1], 1), generator=rng, device=rng.device)
        few = torch.rand(shape, generator=rng, device=rng.device) >= share
        return torch.where(few, _between(shape, 50, 100, rng), _between(shape, 1, 10, rng))


def demand_from_name(name: str) -> Demand:
    """Read ``LOW-HIGH``, ``quadrants`` or ``many-small``."""
    if name == Quadrants.name:
        return Quadrants()
    if name == ManySmall.name:
        return ManySmall()
    if limits := re.fullmatch(r"(\d{1,6})-(\d{1,6})", str(name)):
        return Between(int(limits[1]), int(limits[2]))
    raise ValueError(
        f"Unknown demand {name!r}; use LOW-HIGH such as 1-100, {Quadrants.name} or "
        f"{ManySmall.name}."
    )


def place_depot(points: Tensor, place: str | None, rng: Generator) -> Tensor:
    """Move the depot, the first of the points; None leaves it. [batch, node, 2] -> same"""
    if place is None:
        return points
    depot = points[..., :1, :]
    if place == "random":
        depot = torch.rand(depot.shape, generator=rng, device=rng.device)
    else:
        depot = torch.full_like(depot, 0.5 if place == "centre" else 0.0)
    return torch.cat((depot, points[..., 1:, :]), -2)


def _between(shape: torch.Size, low: int, high: int, rng: Generator) -> Tensor:
    return torch.randint(low, high + 1, shape, generator=rng, device=rng.device)
