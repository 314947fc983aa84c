import math

import pytest
import torch

from lightning.pytorch.callbacks import ModelCheckpoint
from rl4co.envs import get_env
from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, import_weights, load_backbone
from rl4co_prompt.policy.backbone import AttentionPolicy, fingerprint
from rl4co_prompt.tasks.schedule import Random, Sequential
from rl4co_prompt.training.batches import seeded
from rl4co_prompt.training.build import build_backbone
from rl4co_prompt.training.multi_task import MultiTaskPOMO
from tests.conftest import TASKS
from tests.training.runs import Recorder, make_trainer

TINY = {"embed_dim": 16, "num_encoder_layers": 2, "num_heads": 2, "feedforward_hidden": 32}


def make(**options):
    torch.manual_seed(0)
    options = {
        "schedule": Random(TASKS),
        "task_per": "batch",
        "val_tasks": ["10-uniform"],
        "train_data_size": 16,
        "val_data_size": 4,
        "batch_size": 4,
        "lr_milestones": (),
    } | options
    return MultiTaskPOMO(MultiTaskCVRPEnv(), build_backbone(None, TINY), **options)


class Sizes(Recorder):
    """Also keeps the batches' sizes."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        super().on_train_batch_start(trainer, module, batch, batch_idx)
        self.steps[-1]["size"] = batch["demand"].shape[-1]


def fit(epochs=2, callbacks=(), ckpt_path=None, **options):
    model, recorder = make(**options), Sizes()
    make_trainer(epochs, [recorder, *callbacks]).fit(model, ckpt_path=ckpt_path)
    return model, recorder.steps


def test_all_weights_are_trained():
    start = make().policy.state_dict()
    before = {key: value.clone() for key, value in start.items()}
    model, _ = fit()
    after = model.policy.state_dict()

    assert all(not torch.equal(after[key], before[key]) for key in before if "weight" in key)


def test_each_batch_has_a_task_of_its_own():
    _, steps = fit(epochs=3)
    schedule = Random(TASKS)

    assert [step["size"] for step in steps] == [schedule.task(i, 12).num_loc for i in range(12)]
    assert len({step["data"] for step in steps}) == 12


def test_a_resumed_run_goes_on_with_the_same_losses(tmp_path):
    options = {"lr_decay": "cosine", "optimizer_kwargs": {"lr": 1e-2}}
    keep = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    _, whole = fit(4, [keep], **options)
    _, rest = fit(4, ckpt_path=tmp_path / "epoch=1.ckpt", **options)

    assert [x["loss"] for x in rest] == [x["loss"] for x in whole[8:]]


def test_a_cosine_rises_first_and_ends_near_zero():
    _, steps = fit(10, lr_decay="cosine", lr_warmup=0.2, optimizer_kwargs={"lr": 1.0})
    rates = [step["lr"] for step in steps[::4]]
    fall = [0.5 * (1 + math.cos(math.pi * e / 10)) for e in range(10)]

    assert rates[:2] == pytest.approx([fall[0] / 3, fall[1] * 2 / 3])
    assert rates[2:] == pytest.approx(fall[2:])


def test_batches_follow_the_size_of_their_task():
    model = make(batch_size=None, schedule=Sequential(["10-uniform", "150-uniform"]))
    model.trainer = make_trainer(1)
    batches = [batch for batch, _ in zip(model.train_dataloader(), range(2), strict=False)]

    assert [tuple(batch["demand"].shape) for batch in batches] == [(64, 10)]
    model = make(batch_size=None, train_data_size=128, schedule=model.schedule)
    model.trainer = make_trainer(1)
    assert [tuple(batch["demand"].shape) for batch in model.train_dataloader()] == [
        (64, 10),
        (16, 150),
    ]


def test_the_best_of_all_rollouts_favours_none():
    """Only of fewer does it matter which rollouts are among them."""
    reward = -torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    likelihood = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    losses = {
        count: make(best_of=count).calculate_loss(None, {}, {}, reward, likelihood)["loss"].item()
        for count in (1, 2, 4)
    }
    # In pairs: -1, -(1 + 2 + 2) / 3, -(1 + 2 + 4) / 3 and again -7 / 3 on average.
    pairs = torch.tensor([-3.0, -5.0, -7.0, -7.0]) / 3

    assert losses[1] == pytest.approx(-((reward - reward.mean()) * likelihood).mean().item())
    assert losses[2] == pytest.approx(-((pairs - pairs.mean()) * likelihood).mean().item())
    assert losses[4] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task_per": "year"}, "task_per must be epoch or batch"),
        ({"lr_decay": "linear"}, "lr_decay must be milestones or cosine"),
        ({"lr_warmup": 1.0}, "lr_warmup must be a fraction"),
        ({"lr_milestones": (2,)}, "lr_milestones must lie between 0 and 1"),
        ({"best_of": 0}, "best_of must be at least 1 rollout"),
    ],
)
def test_senseless_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_task_per_batch_needs_tasks():
    env = get_env("tsp", generator_params={"num_loc": 9})
    policy = AttentionModelPolicy(env_name="tsp", embed_dim=16, num_encoder_layers=1, num_heads=2)
    with pytest.raises(ValueError, match="MultiTaskCVRPEnv only"):
        MultiTaskPOMO(env, policy, task_per="batch")


def test_the_seed_decides_the_random_numbers():
    def draw(*numbers):
        with seeded(*numbers):
            return torch.rand(3).tolist()

    state = torch.random.get_rng_state()
    assert draw(1, 2) == draw(1, 2)
    assert draw(1, 2) != draw(2, 1)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "policy",
    [
        POMOPolicy(**TINY | {"embed_dim": 32, "num_heads": 4, "normalization": "batch_no_track"}),
        AttentionPolicy(env_name="cvrp", **TINY, tanh_clipping=5.0),
    ],
)
def test_a_checkpoint_tells_its_policy(policy, tmp_path):
    options = {"batch_size": 4, "train_data_size": 8, "val_tasks": ["10-uniform"]}
    model = MultiTaskPOMO(MultiTaskCVRPEnv(), policy, Random(TASKS), **options)
    keep = ModelCheckpoint(tmp_path, filename="x")
    make_trainer(1, [keep]).fit(model)
    found = import_weights(tmp_path / "x.ckpt", tmp_path / "to")

    assert fingerprint(load_backbone(found.backbone)) == fingerprint(model.policy)
    assert (found.config, found.assumed) == (policy.config, [])


def test_batches_by_size_can_be_given():
    schedule = Sequential(["10-uniform", "150-uniform", "155-uniform"])
    model = make(batch_size=None, batch_sizes={150: 6, 200: 3}, schedule=schedule)

    assert [model.batch_size_of(task) for task in schedule.tasks] == [6, 6, 3]
    assert make(batch_size=4, batch_sizes={150: 6}).batch_size_of(schedule.tasks[0]) == 4
    with pytest.raises(ValueError, match="at least 1"):
        make(batch_size=None, batch_sizes={})
