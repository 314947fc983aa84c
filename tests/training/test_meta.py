import copy

import pytest
import torch

from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from rl4co.utils.ops import batchify

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy
from rl4co_prompt.tasks.schedule import RisingSize, Sequential
from rl4co_prompt.training.callbacks import GapWeights
from rl4co_prompt.training.meta import MetaPOMO, Omni
from rl4co_prompt.training.multi_task import seeded
from tests.training.runs import Recorder, make_trainer

TASKS = ("8-uniform", "9-cluster", "10-gm-3-10")


def make(kind, **options):
    torch.manual_seed(0)
    policy = POMOPolicy(embed_dim=16, num_encoder_layers=1, num_heads=2, feedforward_hidden=16)
    options = {
        "schedule": Sequential(TASKS),
        "val_tasks": ["8-uniform"],
        "train_data_size": 8,
        "batch_size": 4,
        "lr_milestones": (),
        "optimizer_kwargs": {"lr": 1e-2},
    } | options
    return kind(MultiTaskCVRPEnv(TASKS[0], check_solution=False), policy, **options)


def fit(model, epochs=3, callbacks=(), ckpt_path=None):
    recorder = Recorder()
    make_trainer(epochs, [recorder, *callbacks]).fit(model, ckpt_path=ckpt_path)
    return recorder.steps


class Weights(Callback):
    """Keeps the weights after every batch."""

    def __init__(self):
        self.seen = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.seen.append([p.detach().clone() for p in module.policy.parameters()])

    def on_train_epoch_end(self, trainer, module):
        self.end = [p.detach().clone() for p in module.policy.parameters()]


def test_reptile_trains_on_other_data_each_epoch():
    """RL4CO's own callback never changes the distribution."""
    seen = []

    class Data(Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            seen.append((batch["demand"].shape[-1], batch["locs"].clone(), batch["capacity"][0]))

    fit(make(MetaPOMO), 3, [Data()])
    spread = [torch.cdist(locs, locs).mean().item() for _, locs, _ in seen]

    assert [size for size, _, _ in seen] == [8, 8, 9, 9, 10, 10]
    assert spread[2] < 0.8 * spread[0]  # clusters are closer
    assert len({round(x, 6) for x in spread}) == 6


def test_reptile_goes_a_part_of_the_way():
    whole, half = Weights(), Weights()
    fit(make(MetaPOMO, alpha=1.0, alpha_decay=1.0), 1, [whole])
    fit(make(MetaPOMO, alpha=0.5, alpha_decay=1.0), 1, [half])

    for start, end, middle in zip(whole.seen[0], whole.end, half.end, strict=True):
        assert torch.allclose(middle, start + 0.5 * (end - start), atol=1e-7)
    assert any(not torch.equal(a, b) for a, b in zip(whole.seen[0], whole.end, strict=True))


def test_each_inner_run_has_a_fresh_adam():
    """With alpha 1, two epochs of one step are two first steps of Adam: all move by the rate."""
    weights = Weights()
    options = {"alpha": 1.0, "alpha_decay": 1.0, "train_data_size": 4}
    fit(make(MetaPOMO, optimizer_kwargs={"lr": 1e-3}, **options), 2, [weights])
    steps = [
        torch.cat([(b - a).flatten() for a, b in zip(*pair, strict=True)])
        for pair in ((weights.seen[0], weights.seen[1]), (weights.seen[1], weights.end))
    ]
    for step in steps:
        moved = step[step != 0].abs()
        assert (moved > 0.98e-3).float().mean() > 0.8  # others have gradients near epsilon
        assert moved.max() < 1.01e-3


def test_every_epoch_has_as_many_inner_steps():
    """Large tasks have smaller batches, not more of them."""
    schedule = Sequential(["8-uniform", "110-uniform"])
    model = make(MetaPOMO, schedule=schedule, batch_size=None, train_data_size=128)
    model.trainer = make_trainer(2)
    model.setup()
    loaders = []
    for epoch in (0, 1):
        model.trainer.fit_loop.epoch_progress.current.processed = epoch
        model.trainer.fit_loop.epoch_progress.current.completed = epoch
        loaders.append(model.train_dataloader())

    assert [len(loader) for loader in loaders] == [2, 2]
    assert [loader.batch_size for loader in loaders] == [64, 32]


def test_every_process_has_all_inner_steps(monkeypatch):
    model = make(MetaPOMO)
    model.trainer = make_trainer(2)
    monkeypatch.setattr(type(model.trainer), "world_size", 3)

    assert model.instances_of_epoch(model.env.generator.task) == 3 * 8


def test_alpha_decays_to_its_floor():
    model = make(MetaPOMO, alpha=0.99, alpha_decay=0.999, alpha_floor=1e-4)

    assert model.step_size(0) == pytest.approx(0.99 * 0.999)
    assert model.step_size(9) == pytest.approx(0.99 * 0.999**10)
    assert model.step_size(10**6) == 1e-4


@pytest.mark.parametrize("kind", [MetaPOMO, Omni])
@pytest.mark.parametrize("second_order", [0.0, 0.5])
def test_a_resumed_run_goes_on_with_the_same_losses(kind, second_order, tmp_path):
    options = {"second_order": second_order} if kind is Omni else {}
    keep = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    whole = fit(make(kind, **options), 4, [keep])
    rest = fit(make(kind, **options), 4, ckpt_path=tmp_path / "epoch=1.ckpt")

    assert [x["loss"] for x in rest] == pytest.approx([x["loss"] for x in whole[4:]], rel=1e-6)


def on_tape(model, epochs=2):
    """A trainer that stands at the first epoch, for calls of single steps."""
    model.trainer = make_trainer(epochs)
    optimizer = torch.optim.Adam(model.policy.parameters(), lr=1e-2)
    model.optimizers = lambda: type("O", (), {"optimizer": optimizer})
    model.log_dict = lambda *args, **options: None
    return optimizer


def query_loss(model, batch, weights):
    """Of the two-level objective, with the policy's weights replaced."""
    policy = model.policy
    with torch.no_grad():
        for parameter, value in zip(policy.parameters(), weights, strict=True):
            parameter.copy_(value)
    return model.shared_step(batch, 0, "train")["loss"]


@pytest.mark.parametrize("moments", [False, True])
def test_second_order_is_the_derivative_through_the_inner_step(moments, monkeypatch):
    """Against central differences in double precision, along random directions."""
    model = make(Omni, second_order=1.0, inner_lr=1e-3)
    model.policy.double()
    optimizer = on_tape(model)
    batch = model.env.generator(6, rng=0).to(torch.float64)
    weights = [p.detach().clone() for p in model.policy.parameters()]
    fixed_choices(model, monkeypatch)
    if moments:
        query_loss(model, batch, weights).backward()
        optimizer.step()
        weights = [p.detach().clone() for p in model.policy.parameters()]
    state = copy.deepcopy(optimizer.state_dict())

    def objective(values):
        optimizer.load_state_dict(copy.deepcopy(state))
        return query_loss(model, batch, values)

    optimizer.zero_grad()
    objective(weights).backward()
    gradient = [p.grad.clone() if p.grad is not None else 0 * p for p in model.policy.parameters()]
    torch.manual_seed(1)
    for _ in range(3):
        way = [torch.randn_like(w) for w in weights]
        step = 1e-6
        up, down = (
            objective([w + s * v for w, v in zip(weights, way, strict=True)]).item()
            for s in (step, -step)
        )
        slope = sum(float((g * v).sum()) for g, v in zip(gradient, way, strict=True))
        assert (up - down) / (2 * step) == pytest.approx(slope, rel=1e-4, abs=1e-7)


def fixed_choices(model, monkeypatch):
    """The tours of the first calls again and again: sampled choices jump where weights change."""
    policy, kept = model.policy, {}
    forward = type(policy).forward

    def replayed(self, td, env, **options):
        key = float(td["locs"].sum())
        if key not in kept:
            with torch.no_grad():
                out = forward(self, td.clone(), env, **options)
            kept[key] = (out["actions"], out["reward"])
        actions, reward = kept[key]
        options = {k: v for k, v in options.items() if k not in ("num_starts", "engine")}
        starts = len(actions) // len(td)
        rows = batchify(td, starts)
        out = forward(self, rows, env, actions=actions, decode_type="evaluate", **options)
        return out | {"reward": reward}

    monkeypatch.setattr(type(policy), "forward", replayed)


def test_first_order_takes_the_gradient_at_the_adapted_weights():
    model = make(Omni, second_order=0.0, inner_lr=1e-2)
    optimizer = on_tape(model)
    batch = model.env.generator(6, rng=0)
    model.shared_step(batch, 0, "train")["loss"].backward()
    found = [p.grad.clone() for p in model.policy.parameters() if p.grad is not None]
    before = [p.detach().clone() for p in model.policy.parameters()]

    optimizer.zero_grad()
    weights = dict(model.policy.named_parameters())
    with seeded(model.seed, 0, 0, 0):
        support = model.loss_at(weights, batch[:3])["loss"]
        adapted = model.inner_step(weights, support)
        with torch.no_grad():
            for parameter, value in zip(weights.values(), adapted.values(), strict=True):
                parameter.copy_(value)
        optimizer.zero_grad()
        (0.9 * model.loss_at(weights, batch[3:])["loss"]).backward()
    expected = [p.grad for p in model.policy.parameters() if p.grad is not None]

    assert any(not torch.equal(a, b) for a, b in zip(before, weights.values(), strict=True))
    assert len(found) == len(expected)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_the_inner_step_uses_and_moves_the_outer_moments(monkeypatch):
    model = make(Omni, second_order=1.0)
    fit(model, 1)
    state = model.trainer.optimizers[0].state

    # Two batches: the first inner step is plain, the second goes through Adam.
    assert {int(s["step"]) for s in state.values()} == {3}


@pytest.mark.parametrize("second_order", [0.0, 1.0])
@pytest.mark.parametrize(("inner_lr", "factor"), [(None, 0.1), (1e-3, 1.0)])
def test_the_inner_step_falls_with_the_learning_rate(second_order, inner_lr, factor):
    model = make(Omni, second_order=second_order, inner_lr=inner_lr)
    optimizer = on_tape(model)
    weights = dict(model.policy.named_parameters())
    batch = model.env.generator(3, rng=0)
    lengths = []
    for rate in (1e-2, 1e-3):
        optimizer.param_groups[0]["lr"] = rate
        with seeded(0):
            adapted = model.inner_step(weights, model.loss_at(weights, batch)["loss"])
        lengths.append(sum((adapted[k] - w).norm() for k, w in weights.items()).item())

    assert lengths[1] / lengths[0] == pytest.approx(factor, rel=1e-2)


def test_the_first_order_step_is_that_of_a_fresh_adam():
    model = make(Omni)
    optimizer = on_tape(model)
    optimizer.param_groups[0]["weight_decay"] = 0.3
    weights = dict(model.policy.named_parameters())
    batch = model.env.generator(3, rng=0)
    with seeded(0):
        adapted = model.inner_step(weights, model.loss_at(weights, batch)["loss"])
    with seeded(0):
        model.loss_at(weights, batch)["loss"].backward()
    torch.optim.Adam(model.policy.parameters(), lr=1e-2, weight_decay=0.3).step()

    assert all(torch.allclose(adapted[k], w, atol=1e-5) for k, w in weights.items())


def test_the_outer_optimizer_must_be_adam():
    with pytest.raises(ValueError, match="got the optimizer AdamW"):
        fit(make(Omni, optimizer="AdamW"), 1)


def test_the_switch_to_first_order_comes_after_its_part_of_the_run(monkeypatch):
    model, seen = make(Omni, second_order=0.5), []
    step = model.inner_step

    def watched(weights, loss):
        seen.append((model.current_epoch, model.in_second_order))
        return step(weights, loss)

    monkeypatch.setattr(model, "inner_step", watched)
    fit(model, 4)

    assert [order for _, order in seen] == [True] * 4 + [False] * 4


def test_reference_costs_of_a_validation_batch_stay_with_it():
    model = make(Omni)
    on_tape(model)
    model._reference = torch.ones(5)  # of another number than a query half has

    assert torch.isfinite(model.shared_step(model.env.generator(6, rng=0), 0, "train")["loss"])


def test_moments_are_those_of_all_processes(monkeypatch):
    model = make(Omni, second_order=1.0)
    optimizer = on_tape(model)
    batch = model.env.generator(6, rng=0)
    model.shared_step(batch, 0, "train")["loss"].backward()
    optimizer.step()

    def reduce(moment, reduce_op):
        assert reduce_op == "mean"
        return moment.fill_(7.0)

    monkeypatch.setattr(model.trainer.strategy, "reduce", reduce)
    model.shared_step(batch, 0, "train")

    assert all((state["exp_avg"] == 7).all() for state in optimizer.state.values())
    assert all((state["exp_avg_sq"] == 7).all() for state in optimizer.state.values())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (MetaPOMO, {"alpha": 0.0}, "alpha must lie in"),
        (MetaPOMO, {"task_per": "batch"}, "one task per epoch"),
        (Omni, {"task_per": "epoch"}, "one task per batch"),
        (Omni, {"second_order": 2}, "part of the run"),
        (Omni, {"distillation": object()}, "by rewards alone"),
    ],
)
def test_senseless_options_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        make(kind, **options)


@pytest.mark.parametrize("kind", [MetaPOMO, Omni])
def test_one_rollout_has_none_to_be_compared_with(kind):
    with pytest.raises(ValueError, match="num_starts must exceed 1"):
        fit(make(kind, num_starts=1), 1)


def test_hard_tasks_are_drawn_more_often():
    """The reference is dear on the first map, so the gap to it is large on the second."""
    schedule = RisingSize(["8-uniform", "8-cluster"])
    costs = iter((5.0, 1.0))

    def reference(td):
        return torch.full((len(td),), next(costs))

    weights = GapWeights(reference, every=1, instances=3, cached=4)
    fit(make(MetaPOMO, schedule=schedule), 2, [weights])

    assert schedule.weights["8-cluster"] > 0.9
    assert sum(schedule.weights.values()) == pytest.approx(1)
    drawn = [schedule.task(epoch, 100).name for epoch in range(100)]
    assert drawn.count("8-cluster") > 80


def test_weights_of_tasks_survive_a_resume(tmp_path):
    calls = []

    def reference(td):
        calls.append(len(td))
        return torch.full((len(td),), 2.0)

    def run(epochs, **options):
        model = make(MetaPOMO, schedule=RisingSize(["8-uniform", "8-cluster", "8-grid"]))
        keep = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
        return fit(model, 4, [GapWeights(reference, 1, 2, 3), keep], **options)

    whole = run(4)
    assert len(calls) == 3  # once for each task
    rest = run(4, ckpt_path=tmp_path / "epoch=1.ckpt")

    assert len(calls) == 3
    assert [x["loss"] for x in rest] == [x["loss"] for x in whole[4:]]


def test_one_process_finds_the_reference_costs_for_all(monkeypatch):
    model, weights = make(MetaPOMO), GapWeights(lambda td: torch.ones(len(td)), 1, 1, 2)
    trainer, task = make_trainer(1), model.env.generator.task
    told = torch.tensor([3.0, 4.0])
    monkeypatch.setattr(trainer.strategy, "broadcast", lambda costs: told)
    monkeypatch.setattr(type(trainer), "is_global_zero", False)
    weights.reference = lambda td: pytest.fail("only the first process solves")

    assert weights._reference_costs(task, model.env.generator(2), trainer) is told


def test_gap_weights_need_a_curriculum():
    with pytest.raises(TypeError, match="RisingSize schedule"):
        fit(make(MetaPOMO), 1, [GapWeights(lambda td: td)])
    with pytest.raises(ValueError, match="instances <= cached"):
        GapWeights(lambda td: td, instances=9, cached=3)
