import numpy as np
import pytest
import torch

from lightning import Trainer
from lightning.pytorch.callbacks import Callback
from rl4co.envs import get_env
from rl4co.models.zoo.am import AttentionModelPolicy
from rl4co.models.zoo.pomo import POMO

from rl4co_prompt import MultiTaskCVRPEnv, PromptedPolicy, PromptPOMO, PromptPool
from rl4co_prompt.tasks.schedule import Sequential
from rl4co_prompt.training.batches import seeded
from tests.conftest import TASKS
from tests.training.runs import FixedPrompts, Recorder, fit, make_model, make_policy, make_trainer


def test_training_moves_the_prompts_and_nothing_else(keys):
    start = make_policy(keys).state_dict()
    policy, _ = fit(keys, epochs=3)
    changed = {k for k, v in policy.state_dict().items() if not torch.equal(v, start[k])}

    assert changed == {"encoder.pool.prompts"}


def test_each_epoch_has_one_task_and_fresh_data(keys):
    _, steps = fit(keys, epochs=4)

    assert [s["task"] for s in steps] == [t for t in (*TASKS, TASKS[0]) for _ in range(2)]
    assert len({s["data"] for s in steps}) == 8


@pytest.mark.parametrize(("options", "batch"), [({"batch_size": None}, 64), ({"batch_size": 4}, 4)])
def test_the_batch_follows_the_size_unless_it_is_given(keys, options, batch):
    model = make_model(make_policy(keys), **options)
    trainer = make_trainer(1, limit_train_batches=0)
    trainer.fit(model)
    model.trainer = trainer

    assert model.train_dataloader().batch_size == batch
    model.schedule = Sequential(["150-uniform"])
    assert model.train_dataloader().batch_size == (16 if batch == 64 else 4)


@pytest.mark.parametrize(
    "optimizer",
    [
        {"optimizer": "Adam", "optimizer_kwargs": {"lr": 0.1, "weight_decay": 0.1}},
        {"optimizer": "AdamW", "optimizer_kwargs": {"lr": 0.1, "weight_decay": 0.1}},
        {"optimizer": "SGD", "optimizer_kwargs": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}},
    ],
    ids=lambda o: o["optimizer"],
)
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("gated", [False, True])
def test_only_chosen_prompts_move_under_momentum_and_decay(keys, optimizer, accumulate, gated):
    """First all prompts gather momentum, then only 0 and 2 are chosen."""
    policy = make_policy(keys, gated=gated)
    chooser = FixedPrompts([0, 1, 2, 3])

    class Check(Callback):
        def on_train_epoch_start(self, trainer, module):
            chooser.chosen = [0, 1, 2, 3] if trainer.current_epoch == 0 else [0, 2]
            self.before = {n: p.detach().clone() for n, p in policy.pool.named_parameters()}

        def on_train_epoch_end(self, trainer, module):
            expected = [i in chooser.chosen for i in range(4)]
            for name, parameter in policy.pool.named_parameters():
                moved = (parameter != self.before[name]).reshape(4, -1).any(1).tolist()
                assert moved == expected, (trainer.current_epoch, name)

    model = make_model(policy, lr_milestones=(), **optimizer)
    trainer = make_trainer(2, [chooser, Check()], accumulate_grad_batches=accumulate)
    if gated:
        with torch.no_grad():
            policy.pool.gate.fill_(0.5)
    trainer.fit(model)

    assert trainer.current_epoch == 2


def test_plain_adam_is_an_option_and_moves_all_prompts(keys):
    policy = make_policy(keys)
    start = policy.pool.prompts.detach().clone()
    model = make_model(
        policy, freeze_unselected=False, optimizer_kwargs={"lr": 0.1, "weight_decay": 0.1}
    )
    make_trainer(1, [FixedPrompts([0])]).fit(model)

    assert (policy.pool.prompts != start).reshape(4, -1).any(1).all()


def test_the_loss_is_pomos(keys):
    """Against RL4CO's own shared step on the same sampled rollouts."""
    policy = make_policy(keys, init_scale=1.0)
    model = make_model(policy)
    batch = model.env.generator(4, rng=0)
    stock = POMO(model.env, policy, batch_size=4)
    model.log_dict = stock.log_dict = lambda *args, **options: None

    def gradient(loss):
        policy.zero_grad()
        loss.backward()
        return policy.pool.prompts.grad.clone()

    torch.manual_seed(3)
    theirs = gradient(stock.shared_step(batch, 0, "train")["loss"])
    torch.manual_seed(3)
    ours = gradient(model._by_rewards(batch, "train", None)["loss"])

    assert torch.equal(ours, theirs)
    assert ours.abs().sum() > 0


def test_a_relative_advantage_divides_by_the_mean_cost(keys):
    model = make_model(make_policy(keys), relative_advantage=True)
    reward = -torch.tensor([[1.0, 3.0], [10.0, 30.0]])
    likelihood = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    loss = model.calculate_loss(None, {}, {}, reward, likelihood)["loss"]

    # Advantages are +-1/2 in both rows, whatever their scale.
    assert loss.item() == pytest.approx(-(0.5 * 1 - 0.5 * 2) / 2)


@pytest.mark.parametrize("decode_type", ["sampling", "greedy"])
def test_training_samples_or_is_greedy(backbone, pool, decode_type):
    model = make_model(PromptedPolicy(backbone, pool, train_decode_type=decode_type))
    model.log_dict = lambda *args, **options: None
    batch = model.env.generator(4, rng=0)
    losses = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        losses.append(model._by_rewards(batch, "train", None)["loss"].item())

    assert (losses[0] == losses[1]) == (decode_type == "greedy")


def test_a_model_can_be_fitted_again_with_its_own_milestones(keys):
    recorder, model = Recorder(), make_model(make_policy(keys), lr_milestones=(0.5,))
    for epochs in (1, 4):
        make_trainer(epochs, [recorder]).fit(model)

    assert [s["lr"] for s in recorder.steps] == pytest.approx([1e-2] * 6 + [1e-3] * 4)


def test_half_precision_trains(keys):
    policy, steps = fit(keys, trainer={"precision": "bf16-mixed"})

    assert all(np.isfinite(s["loss"]) for s in steps)
    assert not torch.equal(policy.pool.prompts, make_policy(keys).pool.prompts)


def test_the_learning_rate_falls_at_fractions_of_the_run(keys):
    _, steps = fit(keys, epochs=10, lr_milestones=(0.2, 0.5), train_data_size=4)

    assert [s["lr"] for s in steps] == pytest.approx([1e-2] * 2 + [1e-3] * 3 + [1e-4] * 5)


def test_gaps_to_reference_costs_are_logged(keys, tmp_path):
    env = MultiTaskCVRPEnv("10-uniform")
    td = env.generator(6, rng=0)
    policy = make_policy(keys)
    with torch.no_grad():
        out = policy.eval()(env.reset(td), env, decode_type="multistart_greedy", num_starts=10)
    cost = -out["reward"].view(10, 6).amax(0)
    np.savez(
        tmp_path / "set.npz",
        depot=td["depot"],
        locs=td["locs"],
        demand=td["demand"],
        capacity=td["capacity"],
        reference=cost / 1.25,
    )
    env = MultiTaskCVRPEnv("10-uniform", data_dir=str(tmp_path), test_file="set.npz")
    model = PromptPOMO(env, policy, Sequential(TASKS), test_data_size=2)  # files are read whole
    found = make_trainer().test(model, verbose=False)[0]

    assert found["test/gap"] == pytest.approx(25, abs=1e-3)
    assert found["test/gap_aug"] <= found["test/gap"]


def test_a_trainer_that_keeps_its_data_is_refused(keys):
    trainer = Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
    with pytest.raises(ValueError, match="use RL4COTrainer"):
        trainer.fit(make_model(make_policy(keys)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr_milestones": (0.5, 2)}, "lr_milestones must lie between 0 and 1"),
        ({"val_tasks": ["10-x"]}, "Unknown geometry 'x'"),
    ],
)
def test_impossible_options_are_refused(keys, options, message):
    with pytest.raises(ValueError, match=message):
        make_model(make_policy(keys), **options)


def test_milestones_need_the_length_of_the_run(keys):
    with pytest.raises(ValueError, match="set max_epochs"):
        make_trainer(-1, max_steps=1).fit(make_model(make_policy(keys)))


def test_a_list_is_no_schedule(keys):
    with pytest.raises(TypeError, match="schedule must be a Schedule"):
        make_model(make_policy(keys), schedule=["10-uniform"])


def test_a_plain_policy_is_refused(env, backbone):
    with pytest.raises(TypeError, match="trains a PromptedPolicy, got POMOPolicy"):
        PromptPOMO(env, backbone)


def test_another_rl4co_problem_trains(keys):
    torch.manual_seed(0)
    env = get_env("tsp", generator_params={"num_loc": 8})
    backbone = AttentionModelPolicy(
        env_name="tsp", embed_dim=16, num_heads=2, num_encoder_layers=2, feedforward_hidden=16
    )
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1, 2))
    start = policy.pool.prompts.detach().clone()
    with pytest.raises(ValueError, match="A schedule needs MultiTaskCVRPEnv, got TSPEnv"):
        PromptPOMO(env, policy, Sequential(TASKS))
    model = PromptPOMO(env, policy, train_data_size=8, val_data_size=4, test_data_size=4)
    make_trainer(1).fit(model)

    assert not torch.equal(policy.pool.prompts, start)


def test_seeding_a_step_leaves_the_global_random_state_alone():
    torch.manual_seed(12)
    expected = torch.rand(3)
    torch.manual_seed(12)
    with seeded(1234, 5):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with seeded(1234, 5):
        assert torch.equal(torch.rand(3), inside)
    with seeded(1234, 6):
        assert not torch.equal(torch.rand(3), inside)
