"""Tiny training runs that the tests of this folder share."""

import torch

from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from rl4co.utils import RL4COTrainer

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, PromptedPolicy, PromptPOMO, PromptPool
from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.tasks.schedule import Sequential
from tests.conftest import TASKS


class Recorder(Callback):
    """Keeps what each training step saw and gave."""

    def __init__(self, stop_at=None):
        self.steps, self.stop_at = [], stop_at

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.steps.append(
            {
                "epoch": trainer.current_epoch,
                "task": module.env.generator.task.name,
                "lr": trainer.optimizers[0].param_groups[0]["lr"],
                "data": float(batch["locs"].sum()),
            }
        )

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.steps[-1]["loss"] = float(outputs["loss"])
        if self.stop_at == (trainer.current_epoch, batch_idx):
            raise KeyboardInterrupt


def make_policy(keys, **options):
    torch.manual_seed(0)
    backbone = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    torch.manual_seed(1)
    pool = PromptPool.for_backbone(backbone, 4, num_tokens=2, **options).set_keys(keys)
    return PromptedPolicy(backbone, pool)


def make_model(policy, **options):
    options = {
        "schedule": Sequential(TASKS),
        "val_tasks": ["10-uniform"],
        "train_data_size": 8,
        "val_data_size": 4,
        "test_data_size": 4,
        "batch_size": 4,
    } | options
    return PromptPOMO(MultiTaskCVRPEnv(), policy, **options)


def make_trainer(epochs=2, callbacks=(), **options):
    options = {
        "enable_checkpointing": any(isinstance(c, ModelCheckpoint) for c in callbacks),
        "logger": False,
        "precision": "32",
        "gradient_clip_val": 0,
        "limit_val_batches": 0,
    } | options
    return RL4COTrainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        callbacks=list(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def fit(keys, epochs=2, callbacks=(), pool=None, trainer=None, ckpt_path=None, **options):
    policy = make_policy(keys, **(pool or {}))
    recorder = Recorder()
    model = make_model(policy, **options)
    make_trainer(epochs, [recorder, *callbacks], **(trainer or {})).fit(model, ckpt_path=ckpt_path)
    return policy, recorder.steps


class FixedPrompts(Callback):
    """Makes every training batch choose the given prompts."""

    def __init__(self, chosen):
        self.chosen = chosen

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        batch[PROMPT] = torch.tensor(self.chosen).repeat(len(batch))[: len(batch)]
