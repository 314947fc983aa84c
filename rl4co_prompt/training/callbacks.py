"""Callbacks of prompt training: who uses which prompt, and the pool as a file."""

from pathlib import Path
from typing import Any

import torch

from lightning import Trainer
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from rl4co_prompt.policy.backbone import save_backbone


class PromptUsage(Callback):
    """Log, at the end of each epoch, the share of instances that chose each prompt."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        self.count = torch.zeros(pl_module.policy.pool.num_prompts, device=pl_module.device)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        chosen: torch.Tensor = pl_module.last_prompts
        self.count += chosen.bincount(minlength=len(self.count))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        share = self.count / self.count.sum()
        pl_module.log_dict(
            {f"usage/prompt_{i:02d}": value for i, value in enumerate(share)}, sync_dist=True
        )


class SavePool(Callback):
    """Write the prompt pool at the end of each epoch, whole or not at all.

    Args:
        path: of the .safetensors file.
    """

    def __init__(self, path: str = "pool.safetensors"):
        self.path = Path(path)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            pl_module.policy.pool.save(self.path)

    def on_fit_end(self, trainer: Trainer, pl_module: Any) -> None:
        rank_zero_info(f"The prompt pool is in {self.path}.")


class SaveBackbone(Callback):
    """Write the policy at the end of each epoch, whole or not at all.

    Args:
        path: of the .safetensors file.
    """

    def __init__(self, path: str = "backbone.safetensors"):
        self.path = Path(path)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            save_backbone(pl_module.policy, self.path)

    def on_fit_end(self, trainer: Trainer, pl_module: Any) -> None:
        rank_zero_info(f"The backbone is in {self.path}.")


class PromptProgressBar(RichProgressBar):
    """Shows the task, the mean best cost of the batch and, once validated, costs or gaps."""

    def get_metrics(self, trainer: Trainer, pl_module: Any) -> dict:
        metrics: dict[str, Any] = super().get_metrics(trainer, pl_module)
        shown: dict[str, Any] = {}
        if getattr(pl_module, "schedule", None) is not None:
            shown["task"] = pl_module.env.generator.task.name
        if "train/max_reward" in metrics:
            shown["cost"] = -float(metrics["train/max_reward"])
        gaps = {key: value for key, value in metrics.items() if key.startswith("val/gap")}
        if gaps:
            return shown | {key: f"{float(value):.2f} %" for key, value in gaps.items()}
        best = [key for key in metrics if key.startswith("val/max_aug_reward")]
        return shown | {key.replace("max_aug_reward", "cost"): -float(metrics[key]) for key in best}
