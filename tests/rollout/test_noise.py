import numpy as np
import pytest
import torch

from rl4co_prompt.rollout import noise


def test_numbers_are_uniform_and_independent():
    """Mean, variance and correlations of 10^6 numbers, within 5 standard errors."""
    states = noise.start_states(3, torch.arange(100), torch.arange(100))
    numbers = noise.uniform(states, 0, 100)

    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=5 * (1 / 12 / 1e6) ** 0.5)
    assert numbers.var() == pytest.approx(1 / 12, abs=5 * (1 / 180 / 1e6) ** 0.5)
    centred = numbers - 0.5
    for axis in range(3):
        moved = centred.roll(1, axis)
        assert abs((12 * centred * moved).mean()) < 5 / 1e3


def test_numbers_depend_on_seed_instance_start_and_step_alone():
    whole = noise.uniform(noise.start_states(3, torch.arange(6), torch.arange(5)), 0, 8)
    part = noise.uniform(noise.start_states(3, torch.arange(2, 4), torch.arange(1, 5)), 3, 8)

    assert torch.equal(part, whole[2:4, 1:, 3:])
    other = noise.uniform(noise.start_states(4, torch.arange(6), torch.arange(5)), 0, 8)
    assert (other != whole).all()


def test_the_kernel_has_the_same_numbers():
    kernel = pytest.importorskip("rl4co_prompt.rollout.kernel", exc_type=ImportError)
    states = noise.start_states(9, torch.arange(3), torch.arange(2))
    numbers = noise.uniform(states, 0, 4)
    for b, s, t in np.ndindex(3, 2, 4):
        state = states[b, s].numpy().view(np.uint64)
        bits = kernel.mix(state + np.uint64(t)) >> np.uint64(41)
        assert np.float32(bits) * np.float32(2.0**-23) == numbers[b, s, t]


def test_a_seed_comes_from_torchs_generator():
    torch.manual_seed(0)
    first = noise.draw_seed()
    torch.manual_seed(0)
    assert noise.draw_seed() == first
    assert noise.draw_seed() != first
