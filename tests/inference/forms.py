"""One small instance in every form that a user may have."""

import numpy as np
import pytest
import torch

from tensordict import TensorDict

from rl4co_prompt.inference.inputs import read_instances
from rl4co_prompt.tasks.instance import Instance

POINTS = [[0.5, 0.5], [0.25, 1.0], [0.1, 0.0], [0.7, 0.3]]
DEMAND = [4, 5, 6]
CAPACITY = 10
EXPECTED = Instance(POINTS, DEMAND, CAPACITY)


def arrays(**changes):
    fields = {
        "depot": POINTS[0],
        "customers": POINTS[1:],
        "demand": DEMAND,
        "capacity": CAPACITY,
    }
    return {**fields, **changes}


def batch(**changes):
    """Two instances, the second with other demands."""
    fields = {
        "depot": np.array([POINTS[0]] * 2),
        "customers": np.array([POINTS[1:]] * 2),
        "demand": np.array([DEMAND, [1, 2, 3]]),
        "capacity": np.array([CAPACITY, 9]),
    }
    return {**fields, **changes}


def tensordict(**changes):
    """RL4CO's form: demands are shares of the capacity."""
    fields = {
        "depot": torch.tensor(POINTS[:1]),
        "locs": torch.tensor([POINTS[1:]]),
        "demand": torch.tensor([DEMAND]) / CAPACITY,
        "capacity": torch.tensor([[float(CAPACITY)]]),
    }
    fields = {key: value for key, value in {**fields, **changes}.items() if value is not None}
    return TensorDict(fields, batch_size=[1])


def columns(**changes):
    fields = {
        "x": [x for x, _ in POINTS],
        "y": [y for _, y in POINTS],
        "demand": [0, *DEMAND],
        "capacity": [CAPACITY] * 4,
    }
    return {key: value for key, value in {**fields, **changes}.items() if value is not None}


def table(**changes):
    return pytest.importorskip("pandas").DataFrame(columns(**changes))


def rows(fields):
    """The text of a table."""
    lines = [",".join(fields), *(",".join(map(str, row)) for row in zip(*fields.values()))]  # noqa: B905
    return "\n".join(lines) + "\n"


def only(x, **options):
    (instance,) = read_instances(x, **options)
    return instance


def sentence(x, error=ValueError, **options):
    """What a bad input is refused with."""
    with pytest.raises(error) as raised:
        read_instances(x, **options)
    assert len(str(raised.value).splitlines()) == 1
    assert str(raised.value).endswith(".")
    return str(raised.value)
