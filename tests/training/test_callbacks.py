import csv

import pytest
import torch

from lightning.pytorch.loggers import CSVLogger

from rl4co_prompt import PromptPool, load_backbone
from rl4co_prompt.training.callbacks import PromptProgressBar, PromptUsage, SaveBackbone, SavePool
from tests.training.runs import FixedPrompts, make_model, make_policy, make_trainer
from tests.training.test_multi_task import make


def test_the_shares_of_the_prompts_are_logged_each_epoch(keys, tmp_path):
    logger = CSVLogger(tmp_path)
    callbacks = [FixedPrompts([0, 2, 2, 2]), PromptUsage()]
    make_trainer(2, callbacks, logger=logger).fit(make_model(make_policy(keys)))
    with open(tmp_path / "lightning_logs/version_0/metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row.get("usage/prompt_00")]

    assert len(rows) == 2
    for row in rows:
        share = [float(row[f"usage/prompt_{i:02d}"]) for i in range(4)]
        assert share == pytest.approx([0.25, 0, 0.75, 0])


def test_the_pool_is_written_as_it_was_trained(keys, tmp_path):
    policy = make_policy(keys)
    make_trainer(1, [SavePool(tmp_path / "pool.safetensors")]).fit(make_model(policy))
    saved = PromptPool.load(tmp_path / "pool.safetensors")

    assert torch.equal(saved.prompts, policy.pool.prompts)
    assert saved.backbone_fingerprint == policy.fingerprint


def test_the_backbone_is_written_as_it_was_trained(tmp_path):
    model = make()
    make_trainer(1, [SaveBackbone(tmp_path / "backbone.safetensors")]).fit(model)
    saved = load_backbone(tmp_path / "backbone.safetensors").state_dict()

    assert all(torch.equal(saved[k], v) for k, v in model.policy.state_dict().items())


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        ({"train/max_reward": -3.0}, {"task": "10-uniform", "cost": 3.0}),
        (
            {"val/max_aug_reward/50-uniform": -2.0, "train/loss": 1.0},
            {"task": "10-uniform", "val/cost/50-uniform": 2.0},
        ),
        (  # op's prizes
            {"val/max_aug_reward": 2.0, "train/max_reward": 3.0},
            {"task": "10-uniform", "reward": 3.0, "val/reward": 2.0},
        ),
        (
            {"val/gap": 1.234, "val/max_aug_reward": -2.0},
            {"task": "10-uniform", "val/gap": "1.23 %"},
        ),
    ],
)
def test_the_bar_shows_the_figures_that_matter(keys, monkeypatch, metrics, shown):
    monkeypatch.setattr(
        "lightning.pytorch.callbacks.RichProgressBar.get_metrics", lambda *args: metrics
    )
    model = make_model(make_policy(keys))
    model.env.task = "10-uniform"

    assert PromptProgressBar().get_metrics(None, model) == shown


def test_the_bar_names_no_task_where_batches_have_their_own(monkeypatch):
    monkeypatch.setattr("lightning.pytorch.callbacks.RichProgressBar.get_metrics", lambda *args: {})

    assert PromptProgressBar().get_metrics(None, make(task_per="batch")) == {}
    assert "task" in PromptProgressBar().get_metrics(None, make(task_per="epoch"))
