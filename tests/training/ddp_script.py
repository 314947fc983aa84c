"""Run by a test: two processes train a pool and write down what each of them saw."""

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


class WriteDown(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        with open(Path(sys.argv[1]) / f"rank{trainer.global_rank}.txt", "a") as file:
            prompts = module.policy.pool.prompts.detach().double().sum().item()
            print(module.env.task.name, prompts, batch["locs"].sum().item(), file=file)


def main():
    torch.manual_seed(0)
    tasks = ["10-uniform", "11-cluster"]
    backbone = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    keys = fit_keys(backbone, tasks, per_task=4, groups=2, clusters=1, progress=False)
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 2, 2).set_keys(keys))
    env = MultiTaskCVRPEnv()
    model = PromptPOMO(env, policy, Random(tasks, seed=1), train_data_size=8, batch_size=2)
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
