"""Batched samplers of maps: depot and customers in the unit square.

A geometry draws ``[batch, num_loc + 1, 2]`` points, depot first, on the device of the random
generator that it is given. No sampler loops over instances.
"""

import re

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch

from torch import Generator, Tensor

REACH = 0.3  # radius, tube width and box side of the four mutation operators
CLUSTER_STD = 0.07


class Geometry(ABC):
    """The law by which the points of an instance are spread."""

    kind: ClassVar[str]  # the name, where there are no options

    @property
    def name(self) -> str:
        """The name that :func:`geometry_from_name` reads."""
        return self.kind

    def sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        """Draw maps. -> [batch, num_loc + 1, 2], depot first"""
        if num_loc < 1:
            raise ValueError(f"num_loc must be at least 1 customer, got {num_loc}.")
        if batch < 1:
            raise ValueError(f"batch must be at least 1 instance, got {batch}.")
        return self._sample(batch, num_loc, rng)

    @abstractmethod
    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor: ...


@dataclass(frozen=True)
class Uniform(Geometry):
    """Depot and customers uniform in the square."""

    kind = "uniform"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        return _uniform(rng, batch, num_loc + 1, 2)


@dataclass(frozen=True)
class Gaussian(Geometry):
    """One Gaussian with a random correlation, scaled with its aspect ratio kept."""

    kind = "gaussian"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        depot = _uniform(rng, batch, 1, 2)
        r = _uniform(rng, batch, 1)
        u, v = _normal(rng, 2, batch, num_loc)
        xy = torch.stack((u, r * u + (1 - r**2).sqrt() * v), -1)  # covariance [[1, r], [r, 1]]
        xy = xy - xy.amin(-2, keepdim=True)
        xy = _divide(xy, xy.amax((-2, -1), keepdim=True))
        xy = xy + (1 - xy.amax(-2, keepdim=True)) / 2
        return torch.cat((depot, xy), -2)


@dataclass(frozen=True)
class GaussianMixture(Geometry):
    """Unit Gaussians around centres in a square of side ``spread``, each axis scaled to [0, 1].

    Args:
        num_modes: number of Gaussians.
        spread: side of the square that the centres are drawn from.
        even: split the customers evenly, as the paper's text has it, instead of by a
            multinomial draw, as its data has it.
    """

    num_modes: int
    spread: float
    even: bool = False

    def __post_init__(self) -> None:
        if self.num_modes < 1 or not self.spread > 0:
            raise ValueError(
                f"A Gaussian mixture needs num_modes >= 1 and spread > 0, "
                f"got {self.num_modes} and {self.spread}."
            )

    @property
    def name(self) -> str:
        return f"gm-{self.num_modes}-{_number(self.spread)}" + ("-even" if self.even else "")

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        # Axis by axis, [batch, 2, node]: reductions over the last dimension are ten times faster.
        depot = _uniform(rng, batch, 2, 1)
        centre = self.spread * _uniform(rng, batch, 2, self.num_modes)
        if self.even:
            mode = torch.arange(num_loc, device=rng.device) * self.num_modes // num_loc
        else:
            mode = _integers(rng, self.num_modes, batch, 1, num_loc)
        xy = centre.gather(-1, mode.expand(batch, 2, num_loc)).add_(_normal(rng, batch, 2, num_loc))
        low = xy.amin(-1, keepdim=True)
        xy = _divide(xy - low, xy.amax(-1, keepdim=True) - low)
        return torch.cat((depot, xy), -1).transpose(1, 2).contiguous()


@dataclass(frozen=True)
class Cluster(Geometry):
    """Three tight clusters; the depot is one of the points."""

    kind = "cluster"
    num_clusters: ClassVar[int] = 3

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        centre = _centres(rng, batch, self.num_clusters)
        size = max((num_loc + 1) // self.num_clusters, 1)  # the last cluster takes the rest
        mode = (torch.arange(num_loc + 1, device=rng.device) // size).clamp(
            max=self.num_clusters - 1
        )
        xy = centre[:, mode] + CLUSTER_STD * _normal(rng, batch, num_loc + 1, 2)
        return _with_random_depot(xy.clamp(0, 1), rng)


@dataclass(frozen=True)
class Mixed(Geometry):
    """Half of the customers uniform, half in one tight cluster; the depot is uniform."""

    kind = "mixed"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        depot = _uniform(rng, batch, 1, 2)
        xy = _uniform(rng, batch, num_loc, 2)
        clustered = _centres(rng, batch, 1) + CLUSTER_STD * _normal(rng, batch, num_loc, 2)
        moved = _uniform(rng, batch, num_loc).argsort(-1) < num_loc // 2  # a random half
        xy = torch.where(moved[..., None], clustered, xy).clamp(0, 1)
        return torch.cat((depot, xy), -2)


@dataclass(frozen=True)
class Attracted(Geometry):
    """Customers around 3 to 8 seeds, ever fewer with the distance, as in CVRPLIB's set X.

    The density falls as exp(-25 d) around each seed. Seeds and depot are uniform.

    Args:
        share: of the customers that are attracted; the others are uniform.
    """

    kind = "attracted"
    share: float = 1.0
    reach: ClassVar[float] = 0.04

    @property
    def name(self) -> str:
        return self.kind if self.share == 1 else f"{self.kind}-{_number(self.share)}"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"The share of attracted customers is in (0, 1], got {self.share}.")

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        xy = _uniform(rng, batch, num_loc + 1, 2)
        seeds = _uniform(rng, batch, 8, 2)
        count = 3 + _integers(rng, 6, batch, 1)
        order = torch.arange(num_loc + 1, device=rng.device)
        missing = (order > num_loc - round(self.share * num_loc)).expand(batch, -1)
        while bool(missing.any()):  # a round fills all but those that would lie outside
            seed = (_uniform(rng, batch, num_loc + 1) * count).long()
            distance = _exponential(rng, 1 / self.reach, 2, batch, num_loc + 1).sum(0)
            angle = 2 * torch.pi * _uniform(rng, batch, num_loc + 1)
            way = distance[..., None] * torch.stack((angle.cos(), angle.sin()), -1)
            drawn = _pick(seeds, seed) + way
            found = missing & ((drawn >= 0) & (drawn <= 1)).all(-1)
            xy = torch.where(found[..., None], drawn, xy)
            missing = missing & ~found
        return xy


@dataclass(frozen=True)
class Expansion(Geometry):
    """Uniform points, those near a random line pushed away from it."""

    kind = "expansion"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        xy = _uniform(rng, batch, num_loc + 1, 2)
        intercept, slope = _uniform(rng, 2, batch, 1, 1)
        slope = torch.where(intercept < 0.5, 3 * slope, -3 * slope)
        along = torch.cat((torch.ones_like(slope), slope), -1) / (1 + slope**2).sqrt()
        foot = torch.cat((torch.zeros_like(intercept), intercept), -1)
        foot = foot + ((xy - foot) * along).sum(-1, keepdim=True) * along
        away = xy - foot
        pushed = foot + _unit(away) * (REACH + _exponential(rng, 10, batch, num_loc + 1, 1))
        xy = torch.where(_affected(away.norm(dim=-1) < REACH)[..., None], pushed, xy)
        return _with_random_depot(_rescale(xy), rng)


@dataclass(frozen=True)
class Explosion(Geometry):
    """Uniform points, those near a random centre thrown out of its disc.

    Args:
        reflect: throw each point to the far side of the centre, as the published data does,
            instead of straight outward, as the operator is described.
    """

    reflect: bool = True

    @property
    def name(self) -> str:
        return "explosion" if self.reflect else "explosion-outward"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        xy = _uniform(rng, batch, num_loc + 1, 2)
        centre = _uniform(rng, batch, 1, 2)
        away = xy - centre
        direction = -_unit(away) if self.reflect else _unit(away)
        thrown = centre + direction * (REACH + _exponential(rng, 10, batch, num_loc + 1, 1))
        xy = torch.where(_affected(away.norm(dim=-1) < REACH)[..., None], thrown, xy)
        return _with_random_depot(_rescale(xy), rng)


@dataclass(frozen=True)
class Implosion(Geometry):
    """Uniform points, those near a random centre drawn towards it.

    Args:
        cap: largest part of the way that a point moves; the published data has 0.3, the
            operator's description 1.
    """

    cap: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.cap <= 1:
            raise ValueError(f"cap must lie between 0 and 1, got {self.cap}.")

    @property
    def name(self) -> str:
        return "implosion" if self.cap == REACH else f"implosion-{_number(self.cap)}"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        xy = _uniform(rng, batch, num_loc + 1, 2)
        inward = _uniform(rng, batch, 1, 2) - xy
        part = _normal(rng, batch, num_loc + 1, 1).abs().clamp(max=self.cap)
        near = _affected(inward.norm(dim=-1) < REACH)[..., None]
        return _with_random_depot(torch.where(near, xy + part * inward, xy), rng)


@dataclass(frozen=True)
class Grid(Geometry):
    """Uniform points, those in a random box put on a square lattice that spans it."""

    kind = "grid"

    def _sample(self, batch: int, num_loc: int, rng: Generator) -> Tensor:
        xy = _uniform(rng, batch, num_loc + 1, 2)
        corner = (1 - REACH) * _uniform(rng, batch, 1, 2)
        inside = ((xy > corner) & (xy <= corner + REACH)).all(-1)  # [batch, node]
        side = inside.sum(-1, keepdim=True).sqrt().floor().long()  # lattice points per side
        order = _uniform(rng, batch, num_loc + 1).masked_fill(~inside, 2.0)
        rank = order.argsort(-1).argsort(-1)  # random 0, 1, ... over the points inside
        cell = torch.stack((rank % side.clamp(min=1), rank // side.clamp(min=1)), -1)
        step = REACH / (side - 1).clamp(min=1)
        placed = _affected(inside) & (rank < side**2)
        xy = torch.where(placed[..., None], corner + cell * step[..., None], xy)
        return _with_random_depot(xy, rng)


_PLAIN: dict[str, Geometry] = {
    g.name: g
    for g in (
        Uniform(),
        Gaussian(),
        Cluster(),
        Mixed(),
        Expansion(),
        Explosion(),
        Explosion(reflect=False),
        Implosion(),
        Grid(),
        Attracted(),
    )
}


def geometry_from_name(name: str) -> Geometry:
    """Read a geometry's name, such as ``uniform``, ``cluster`` or ``gm-3-10`` (modes, spread)."""
    if name in _PLAIN:
        return _PLAIN[name]
    number = r"(\d[\d.]*(?:e[+-]?\d+)?)"
    if mixture := re.fullmatch(rf"gm-(\d+)-{number}(-even)?", str(name)):
        modes, spread, even = mixture.groups()
        return GaussianMixture(int(modes), float(spread), even is not None)
    if attracted := re.fullmatch(rf"attracted-{number}", str(name)):
        return Attracted(float(attracted[1]))
    if implosion := re.fullmatch(rf"implosion-{number}", str(name)):
        return Implosion(float(implosion[1]))
    raise ValueError(
        f"Unknown geometry {name!r}; use one of {', '.join(_PLAIN)}, "
        "attracted-SHARE such as attracted-0.5, implosion-CAP such as implosion-1, or "
        "gm-MODES-SPREAD such as gm-3-10."
    )


def _number(value: float) -> str:
    """Short where that is exact, so that a name reads back."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _uniform(rng: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=rng, device=rng.device)


def _normal(rng: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, device=rng.device)


def _integers(rng: Generator, high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=rng, device=rng.device)


def _exponential(rng: Generator, rate: float, *shape: int) -> Tensor:
    return torch.empty(shape, device=rng.device).exponential_(rate, generator=rng)


def _centres(rng: Generator, batch: int, count: int) -> Tensor:
    return 0.2 + 0.6 * _uniform(rng, batch, count, 2)


def _pick(points: Tensor, index: Tensor) -> Tensor:
    """[batch, any, 2], [batch, node] -> [batch, node, 2]"""
    return points.gather(-2, index[..., None].expand(*index.shape, 2))


def _divide(xy: Tensor, extent: Tensor) -> Tensor:
    """Divide by an extent; coincident points (extent 0) stay at 0."""
    return xy / extent.clamp(min=torch.finfo(extent.dtype).tiny)


def _unit(vector: Tensor) -> Tensor:
    return _divide(vector, vector.norm(dim=-1, keepdim=True))


def _affected(near: Tensor) -> Tensor:
    """A mutation acts on two points or more, else on none. [batch, node] -> same"""
    return near & (near.sum(-1, keepdim=True) >= 2)


def _rescale(xy: Tensor) -> Tensor:
    """One shift and one factor for both axes, so that all coordinates span [0, 1]."""
    low = xy.amin((-2, -1), keepdim=True)
    return _divide(xy - low, xy.amax((-2, -1), keepdim=True) - low)


def _with_random_depot(xy: Tensor, rng: Generator) -> Tensor:
    """Swap a random point to the front."""
    batch, nodes, _ = xy.shape
    order = torch.arange(nodes, device=xy.device).repeat(batch, 1)
    chosen = _integers(rng, nodes, batch, 1)
    order.scatter_(-1, chosen, 0)
    order[:, :1] = chosen
    return _pick(xy, order)
