import pytest
import torch

from hypothesis import given, strategies as st

from rl4co_prompt.rollout.budget import MEGABYTE, budget_bytes, chunk_sizes

positive = st.floats(1, 1e6)


@given(st.integers(1, 500), st.integers(1, 500), positive, positive, st.floats(1, 1e9))
def test_a_chunk_fits_and_covers_at_least_one_rollout(
    batch, starts, per_instance, per_start, budget
):
    if per_instance + per_start > budget:
        with pytest.raises(
            MemoryError, match=r"too small for a single rollout.*raise memory_budget"
        ):
            chunk_sizes(batch, starts, per_instance, per_start, budget)
        return
    instances, part = chunk_sizes(batch, starts, per_instance, per_start, budget)

    assert 1 <= instances <= batch
    assert 1 <= part <= starts
    assert instances * (per_instance + part * per_start) <= budget * (1 + 1e-9)
    assert part == starts or instances == 1


def test_the_budget_is_in_megabytes_and_has_a_default():
    assert budget_bytes(3, torch.device("cpu")) == 3 * MEGABYTE
    assert budget_bytes(None, torch.device("cpu")) == 1024 * MEGABYTE
