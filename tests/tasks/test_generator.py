import pytest
import torch

from rl4co_prompt import Task, TaskGenerator


def test_changing_the_task_changes_the_next_batch():
    """Guards against a sampler that is frozen at construction."""
    generator = TaskGenerator("60-uniform")
    before = generator(64)
    generator.task = "40-gm-7-50"
    after = generator(64)

    assert before["locs"].shape == (64, 60, 2)
    assert after["locs"].shape == (64, 40, 2)
    assert torch.equal(after["locs"].amin(1), torch.zeros(64, 2))  # a mixture spans the square
    assert after["capacity"].unique().item() == 38


def test_demands_are_the_integers_one_to_nine_over_the_capacity():
    td = TaskGenerator("100-uniform")(200, rng=0)
    counts = (td["demand"] * 50).round().long().flatten().bincount(minlength=10)

    assert torch.allclose(td["demand"] * 50, (td["demand"] * 50).round(), atol=1e-5)
    assert counts[0] == 0
    assert len(counts) == 10
    # 20,000 draws over nine values: each share within five standard errors of 1/9.
    assert (counts[1:] / 20_000 - 1 / 9).abs().max() < 5 * (8 / 81 / 20_000) ** 0.5


def test_a_seed_or_a_generator_decides_the_batch():
    generator = TaskGenerator("20-mixed")
    rng = torch.Generator().manual_seed(3)

    assert (generator(4, rng=3) == generator(4, rng=rng)).all()
    assert not (generator(4, rng=3) == generator(4, rng=rng)).all()


def test_without_a_seed_the_global_generator_is_used_as_in_rl4co():
    generator = TaskGenerator("20-mixed")
    torch.manual_seed(5)
    one = generator(4)
    torch.manual_seed(5)

    assert (generator(4) == one).all()


def test_shapes_of_several_dimensions_work():
    assert TaskGenerator("7-grid")([2, 3])["locs"].shape == (2, 3, 7, 2)


def test_fields_of_the_task_may_stand_alone():
    assert TaskGenerator(num_loc=30, geometry="grid").task == Task(30, "grid")
    assert TaskGenerator().task == Task()
    with pytest.raises(ValueError, match="either task or num_loc"):
        TaskGenerator("20-grid", num_loc=30)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_instances_are_drawn_on_the_device():
    generator = TaskGenerator("20-gm-3-10", device="cuda")

    assert generator(4)["locs"].is_cuda
    assert generator(4, rng=1)["demand"].is_cuda
