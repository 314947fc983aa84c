import pytest

from rl4co_prompt.tasks.schedule import Mixture, Random, RisingSize, Sequential
from rl4co_prompt.tasks.task import training_tasks


def test_sequential_goes_through_the_tasks_again_and_again():
    schedule = Sequential(["10-uniform", "12-grid"])

    assert [schedule.task(epoch, 4).num_loc for epoch in range(4)] == [10, 12, 10, 12]


def test_the_default_is_the_papers_task_list():
    assert Sequential().tasks == training_tasks()


def test_random_depends_on_seed_and_epoch_alone():
    one, two, other = Random(seed=1), Random(seed=1), Random(seed=2)
    forward = [one.task(epoch, 99).name for epoch in range(50)]
    backward = [two.task(epoch, 99).name for epoch in reversed(range(50))]

    assert forward == backward[::-1]
    assert forward != [other.task(epoch, 99).name for epoch in range(50)]
    assert len(set(forward)) > 30


def test_rising_size_follows_omnis_formula():
    schedule, run = RisingSize(), 1000
    for epoch in range(0, run, 7):
        size = 5 * ((50 + int(min(epoch / (0.9 * run), 1) * 150)) // 5)
        assert schedule.task(epoch, run).num_loc == size
    assert schedule.task(900, run).num_loc == 200


def test_rising_size_knows_the_sizes_of_other_problems():
    assert RisingSize(problem="pdp").tasks == training_tasks("pdp")
    assert RisingSize(["10-grid"], problem="tsp").task(0, 9).name == "tsp:10-grid"


def test_rising_size_draws_all_maps_of_a_size():
    drawn = {RisingSize(seed=seed).task(0, 100).geometry.name for seed in range(200)}

    assert len(drawn) == 11


def test_rising_size_needs_the_length_of_the_run():
    with pytest.raises(ValueError, match="max_epochs=-1"):
        RisingSize().task(0, -1)


def test_one_task_alone_will_do():
    assert [task.name for task in Sequential("50-grid").tasks] == ["50-grid"]


def test_an_empty_schedule_is_refused():
    with pytest.raises(ValueError, match="at least one task"):
        Sequential([])


def test_a_mixture_draws_by_weight():
    schedule = Mixture([Sequential(["10-uniform"]), Random(["20-uniform", "30-grid"])], [1, 3])
    drawn = [schedule.task(epoch, 99).num_loc for epoch in range(400)]

    assert len(schedule.tasks) == 3
    assert 60 <= drawn.count(10) <= 140  # 100 expected, 9 the standard deviation
    assert drawn.count(20) > 80
    assert drawn.count(30) > 80
    assert drawn == [schedule.task(epoch, 99).num_loc for epoch in range(400)]


@pytest.mark.parametrize("weights", [[1], [1, 0]])
def test_every_part_of_a_mixture_has_a_weight(weights):
    with pytest.raises(ValueError, match="positive weight for each of 2"):
        Mixture([Sequential(["10-uniform"]), Sequential(["12-uniform"])], weights)
