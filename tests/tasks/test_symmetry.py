import pytest
import torch

from rl4co.data.transforms import StateAugmentation
from rl4co.envs import get_env
from tensordict import TensorDict

from rl4co_prompt.tasks.symmetry import Symmetries, square_of


def augmented(locs, symmetries):
    td = TensorDict({"locs": locs}, batch_size=[len(locs)])
    return StateAugmentation(num_augment=8, augment_fn=symmetries)(td)["locs"]


def test_in_the_unit_square_they_are_rl4cos():
    locs = torch.rand(3, 5, 2)

    assert torch.equal(augmented(locs, Symmetries()), augmented(locs, "dihedral8"))


def test_in_another_square_they_stay_inside():
    locs = 10 + 140 * torch.rand(3, 5, 2)
    found = augmented(locs, Symmetries(10.0, 150.0)).view(8, 3, 5, 2)

    assert torch.allclose(found[0], locs, atol=1e-4)
    assert found.min() >= 10 - 1e-3
    assert found.max() <= 150 + 1e-3
    assert torch.allclose(found[1, ..., 0], 160 - locs[..., 0], atol=1e-3)
    assert len({float(copy.sum()) for copy in found}) > 2


@pytest.mark.parametrize(
    ("name", "params", "square"),
    [
        ("cvrptw", {}, (0, 150)),
        ("cvrptw", {"scale": True}, (0, 150 / 480)),
        ("op", {}, (0, 1)),
        ("tsp", {"max_loc": 2.0}, (0, 2)),
        ("smtwtp", {}, (0, 1)),
    ],
)
def test_the_square_is_the_generators(name, params, square):
    assert square_of(get_env(name, generator_params=params)) == square
