import re

from itertools import pairwise

import numpy as np
import pytest
import torch

from hypothesis import given, settings, strategies as st

from rl4co_prompt.tasks.geometry import (
    Attracted,
    Explosion,
    GaussianMixture,
    Geometry,
    Implosion,
    geometry_from_name,
)
from tests.conftest import outside

PLAIN = ["uniform", "gaussian", "cluster", "mixed", "expansion", "explosion", "implosion", "grid"]
NAMES = [
    *PLAIN,
    "explosion-outward",
    "implosion-1",
    "gm-3-10",
    "gm-7-50",
    "gm-5-30-even",
    "attracted",
    "attracted-0.5",
]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def nearest(xy):
    distance = torch.cdist(xy, xy)
    distance.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    return distance.amin(-1)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    batch=st.integers(1, 5),
    num_loc=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_any_geometry_fills_the_unit_square_at_any_size(name, batch, num_loc, seed):
    xy = geometry_from_name(name).sample(batch, num_loc, rng(seed))

    assert xy.shape == (batch, num_loc + 1, 2)
    assert xy.dtype == torch.float32
    assert torch.isfinite(xy).all()
    assert xy.min() >= 0
    assert xy.max() <= 1 + 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_the_maps(name):
    geometry = geometry_from_name(name)

    assert torch.equal(geometry.sample(3, 20, rng(1)), geometry.sample(3, 20, rng(1)))
    assert not torch.equal(geometry.sample(3, 20, rng(1)), geometry.sample(3, 20, rng(2)))


@pytest.mark.parametrize("name", [*NAMES, "gm-3-0.25", "implosion-0.5"])
def test_a_name_reads_back(name):
    assert geometry_from_name(name).name == name


@given(modes=st.integers(1, 9), spread=st.floats(1e-9, 1e9), even=st.booleans())
def test_any_mixture_reads_back_exactly(modes, spread, even):
    geometry = GaussianMixture(modes, spread, even)

    assert geometry_from_name(geometry.name) == geometry


@pytest.mark.parametrize(
    "name", ["unifrom", "gm-3", "gm-x-1", "gm-3-nan", "gm-3--1", "implosion-x"]
)
def test_an_unknown_name_says_what_is_known(name):
    with pytest.raises(ValueError, match=re.escape(f"Unknown geometry {name!r}") + ".*uniform"):
        geometry_from_name(name)


@pytest.mark.parametrize(("batch", "num_loc", "word"), [(4, 0, "num_loc"), (0, 4, "batch")])
def test_empty_maps_are_refused(batch, num_loc, word):
    with pytest.raises(ValueError, match=f"{word} must be at least 1.*got 0"):
        geometry_from_name("uniform").sample(batch, num_loc, rng())


def test_a_mixture_spans_each_axis_exactly():
    xy = GaussianMixture(3, 10).sample(50, 40, rng())[:, 1:]  # the depot is not scaled

    assert torch.equal(xy.amin(1), torch.zeros(50, 2))
    assert torch.equal(xy.amax(1), torch.ones(50, 2))


def test_a_gaussian_keeps_its_aspect_ratio_and_is_centred():
    xy = geometry_from_name("gaussian").sample(200, 60, rng())[:, 1:]
    extent = xy.amax(1) - xy.amin(1)

    assert torch.allclose(extent.amax(1), torch.ones(200))
    assert extent.amin(1).max() < 1
    assert torch.allclose(xy.amax(1) + xy.amin(1), torch.ones(200, 2), atol=1e-6)


@pytest.mark.parametrize("name", ["expansion", "explosion"])
def test_expansion_and_explosion_span_both_axes_jointly(name):
    xy = geometry_from_name(name).sample(50, 40, rng())

    assert torch.equal(xy.amin((1, 2)), torch.zeros(50))
    assert torch.equal(xy.amax((1, 2)), torch.ones(50))


def test_mixture_counts_are_multinomial_unless_even():
    far = GaussianMixture(2, 1000).sample(400, 60, rng())[:, 1:]
    even = GaussianMixture(2, 1000, even=True).sample(400, 60, rng())[:, 1:]
    halves = [((xy[..., 0] < 0.5).sum(1) == 30).float().mean().item() for xy in (far, even)]

    # Binomial(60, 1/2) gives 30 in 10 % of the cases, error 1.5 %; few centres lie close in x.
    assert halves[0] == pytest.approx(0.10, abs=0.06)
    assert halves[1] > 0.95


def test_a_cluster_map_has_33_33_and_35_points_of_101():
    """Points come cluster by cluster; only the depot is swapped to the front."""
    xy = geometry_from_name("cluster").sample(500, 100, rng())
    bounds = (0, 33, 66, 101)
    for first, last in pairwise(bounds):
        inner = xy[:, first + 1 : last - 1]
        assert inner.var(1).mean() == pytest.approx(0.07**2, rel=0.2)
        for edge in (max(first, 1), last - 1):  # 0.09 from the own centre, 0.3 from another
            assert (xy[:, edge] - inner.mean(1)).norm(dim=-1).mean() < 0.12


def test_explosion_clears_a_disc_and_reflects():
    outward = Explosion(reflect=False).sample(2000, 50, rng())
    reflected = Explosion().sample(2000, 50, rng())

    # Method notes, section 3: mean nearest-neighbour distance 0.0626 outward, 0.0587 reflected.
    assert nearest(outward).mean() == pytest.approx(0.0626, abs=4 * 2e-4)
    assert nearest(reflected).mean() == pytest.approx(0.0587, abs=4 * 2e-4)


def test_implosion_moves_points_by_its_cap():
    # Same source: 0.0724 with a cap of 0.3, 0.0685 with 1.
    assert nearest(Implosion().sample(2000, 50, rng())).mean() == pytest.approx(0.0724, abs=8e-4)
    assert nearest(Implosion(1.0).sample(2000, 50, rng())).mean() == pytest.approx(0.0685, abs=8e-4)


def test_grid_puts_a_square_number_of_points_on_a_lattice():
    xy = geometry_from_name("grid").sample(300, 200, rng())
    for points in xy[:20]:
        shared = (points[:, None] - points[None]).abs() < 1e-6  # same column or same row
        on_lattice = (shared.sum(1) >= 3).any(-1).sum().item()
        assert on_lattice == round(on_lattice**0.5) ** 2
        assert on_lattice >= 9


@pytest.mark.parametrize("options", [{"num_modes": 0, "spread": 1}, {"num_modes": 2, "spread": 0}])
def test_an_empty_mixture_is_refused(options):
    with pytest.raises(ValueError, match="num_modes >= 1 and spread > 0"):
        GaussianMixture(**options)


def test_a_cap_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"cap must lie between 0 and 1, got 1\.5"):
        Implosion(1.5)


def test_a_new_geometry_needs_only_its_sampler():
    class Corner(Geometry):
        kind = "corner"

        def _sample(self, batch, num_loc, rng):
            return torch.zeros(batch, num_loc + 1, 2, device=rng.device)

    assert Corner().sample(2, 3, rng()).shape == (2, 4, 2)


SETS = {
    "amdkd_test_cluster50": "cluster",
    "amdkd_test_cluster100": "cluster",
    "amdkd_test_mixed50": "mixed",
    "amdkd_test_mixed100": "mixed",
    "amdkd_testsub_expansion50": "expansion",
    "amdkd_testsub_explosion50": "explosion",
    "amdkd_testsub_implosion50": "implosion",
    "amdkd_testsub_grid50": "grid",
    "amdkd_val_uniform50": "uniform",
}


@pytest.mark.parametrize("name", SETS)
def test_statistics_match_published_data(name):
    """Four statistics per instance; the means agree within four standard errors."""
    with np.load(outside(f"zero_shot/{name}_0-499.npz")) as data:
        published = np.concatenate((data["depot"][:, None], data["customers"]), 1)
    published = torch.from_numpy(published).float()
    ours = geometry_from_name(SETS[name]).sample(4000, published.shape[1] - 1, rng(1))

    def statistics(xy):
        return {
            "nearest neighbour": nearest(xy).mean(1),
            "pair distance": torch.cdist(xy, xy).mean((1, 2)),
            "depot distance": (xy[:, 1:] - xy[:, :1]).norm(dim=-1).mean(1),
            "spread": xy.std(1).mean(1),
        }

    for key, theirs in statistics(published).items():
        mine = statistics(ours)[key]
        error = (theirs.var() / len(theirs) + mine.var() / len(mine)).sqrt()
        assert abs(theirs.mean() - mine.mean()) < 4 * error, key


def test_attracted_customers_lie_around_few_seeds():
    """The nearest neighbour of an attracted customer is nearer; half of them, in between."""
    near = {
        name: nearest(geometry_from_name(name).sample(200, 100, rng())[:, 1:]).mean().item()
        for name in ("uniform", "attracted-0.5", "attracted")
    }

    assert near["attracted"] < 0.6 * near["uniform"]
    assert near["attracted"] < near["attracted-0.5"] < near["uniform"]


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_of_attracted_customers_is_a_share(share):
    with pytest.raises(ValueError, match="share of attracted customers"):
        Attracted(share)
