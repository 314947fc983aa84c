"""Run by a test: two processes train and write down what each of them saw.

Usage: FOLDER pool|taught|omni
"""

import sys

from pathlib import Path

import torch

from lightning.pytorch.callbacks import Callback
from rl4co.utils import RL4COTrainer

from rl4co_prompt import (
    MultiTaskCVRPEnv,
    POMOPolicy,
    PromptedPolicy,
    PromptPOMO,
    PromptPool,
    fit_keys,
)
from rl4co_prompt.tasks.schedule import Random
from rl4co_prompt.training.distill import Distillation, Teacher
from rl4co_prompt.training.meta import Omni
from rl4co_prompt.training.multi_task import MultiTaskPOMO

TASKS = ["10-uniform", "11-cluster"]
TINY = {"embed_dim": 16, "num_encoder_layers": 2, "num_heads": 2, "feedforward_hidden": 32}


class WriteDown(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        with open(Path(sys.argv[1]) / f"rank{trainer.global_rank}.txt", "a") as file:
            size = batch["demand"].shape[-1]
            weights = sum(p.detach().double().sum().item() for p in module.trained())
            print(size, weights, batch["locs"].sum().item(), file=file)


def pool():
    """Prompts, a task for each epoch."""
    backbone = POMOPolicy(**TINY)
    keys = fit_keys(backbone, TASKS, per_task=4, groups=2, clusters=1, progress=False)
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 2, 2).set_keys(keys))
    schedule = Random(TASKS, seed=1)
    return PromptPOMO(MultiTaskCVRPEnv(), policy, schedule, train_data_size=8, batch_size=2)


def taught():
    """A backbone, a task for each batch, a teacher for one of the sizes."""
    return MultiTaskPOMO(
        MultiTaskCVRPEnv(),
        POMOPolicy(**TINY),
        Random(TASKS, seed=1),
        task_per="batch",
        distillation=Distillation([Teacher(POMOPolicy(**TINY), (10, 10))], num_tours=2),
        train_data_size=6,  # an odd number of batches
        batch_size=2,
    )


def omni():
    """In second order, whose inner steps go into the moments of the optimizer."""
    return Omni(
        MultiTaskCVRPEnv(),
        POMOPolicy(**TINY),
        Random(TASKS, seed=1),
        second_order=1.0,
        train_data_size=8,
        batch_size=2,
    )


def main():
    torch.manual_seed(0)
    model = {"pool": pool, "taught": taught, "omni": omni}[sys.argv[2]]()
    RL4COTrainer(
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        precision="32",
        gradient_clip_val=0,
        callbacks=[WriteDown()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    ).fit(model)


if __name__ == "__main__":
    main()
