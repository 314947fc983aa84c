"""Callbacks of prompt training: who uses which prompt, and the pool as a file."""

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import torch

from lightning import Trainer
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from tensordict import TensorDict
from torch import Tensor

from rl4co_prompt.policy.backbone import save_backbone
from rl4co_prompt.rollout.starts import rollout_options
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.schedule import RisingSize
from rl4co_prompt.tasks.task import Task


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
    """Shows the epoch's task, the batch's mean best cost and, once validated, costs or gaps."""

    def get_metrics(self, trainer: Trainer, pl_module: Any) -> dict:
        metrics: dict[str, Any] = super().get_metrics(trainer, pl_module)
        shown: dict[str, Any] = {}
        scheduled = getattr(pl_module, "schedule", None) is not None
        if scheduled and pl_module.task_per == "epoch":  # batches draw tasks of their own
            shown["task"] = pl_module.env.generator.task.name
        if "train/max_reward" in metrics:
            shown |= _cost_or_reward("cost", metrics["train/max_reward"])
        gaps = {key: value for key, value in metrics.items() if key.startswith("val/gap")}
        if gaps:
            return shown | {key: f"{float(value):.2f} %" for key, value in gaps.items()}
        best = [key for key in metrics if key.startswith("val/max_aug_reward")]
        for key in best:
            shown |= _cost_or_reward(key.replace("max_aug_reward", "cost"), metrics[key])
        return shown


def _cost_or_reward(name: str, reward: Any) -> dict[str, float]:
    """RL4CO's rewards are costs with a minus, but for problems such as op that collect prizes."""
    value = float(reward)
    return {name: -value} if value <= 0 else {name.replace("cost", "reward"): value}


class GapWeights(Callback):
    """Weigh a curriculum's tasks by how far the policy is from a reference solver (Omni-VRP).

    At the beginning of an epoch, the tasks of its size get the softmax of their mean gaps in
    percent. It needs a :class:`RisingSize` schedule.

    Args:
        reference: from instances, a TensorDict, to costs.
        every: epochs between two updates.
        instances: of each task that the policy solves, with all starts, for an update.
        cached: instances of each task that these are drawn from and whose reference is known.
        seed: of the instances.
    """

    def __init__(
        self,
        reference: Callable[[TensorDict], Tensor],
        every: int = 100,
        instances: int = 50,
        cached: int = 200,
        seed: int = 1234,
    ):
        if not 1 <= instances <= cached or every < 1:
            raise ValueError(
                "GapWeights needs every >= 1 and 1 <= instances <= cached, got "
                f"{every}, {instances} and {cached}."
            )
        self.reference, self.every = reference, every
        self.instances, self.cached, self.seed = instances, cached, seed
        self.costs: dict[str, Tensor] = {}  # of the cached instances, by task
        self._restored: dict[str, float] = {}

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Before any data is drawn."""
        if not isinstance(pl_module.schedule, RisingSize):
            raise TypeError("GapWeights weighs a RisingSize schedule; give the model one.")
        self._schedule = pl_module.schedule
        self._schedule.weights |= self._restored

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Weights of the epochs that follow; the data of this one is there already."""
        epoch, epochs = trainer.current_epoch, trainer.max_epochs or 0
        if epoch % self.every:
            return
        tasks = self._schedule.tasks_at(min(epoch + 1, epochs), epochs)
        gaps = torch.tensor([self._gap(task, epoch, pl_module) for task in tasks])
        shares = gaps.softmax(0).tolist()
        self._schedule.weights |= {
            task.name: share for task, share in zip(tasks, shares, strict=True)
        }

    @torch.no_grad()
    def _gap(self, task: Task, epoch: int, module: Any) -> float:
        """Mean in percent."""
        generator = copy(module.env.generator)
        generator.task = task
        td = generator(self.cached, rng=self.seed)
        if task.name not in self.costs:
            self.costs[task.name] = self._reference_costs(task, td, module.trainer)
        rng = torch.Generator().manual_seed(self.seed + epoch)
        rows = torch.randperm(self.cached, generator=rng)[: self.instances]
        policy, training = module.policy, module.policy.training
        policy.eval()
        batch = reset(module.env, td[rows].to(module.device))
        options = rollout_options(batch, None, "starts")
        out = policy(batch, module.env, phase="test", decode_type="multistart_greedy", **options)
        policy.train(training)
        cost = -out["reward"].view(-1, len(batch)).amax(0).cpu()
        return float(100 * (cost / self.costs[task.name][rows] - 1).mean())

    def _reference_costs(self, task: Task, td: TensorDict, trainer: Trainer) -> Tensor:
        """Found by one process for all, as searches within a time differ."""
        rank_zero_info(f"The reference solves {self.cached} instances of {task.name}.")
        costs: Any = self.reference(td) if trainer.is_global_zero else None
        found: Tensor = trainer.strategy.broadcast(costs)
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"weights": dict(self._schedule.weights), "costs": self.costs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored, self.costs = state_dict["weights"], state_dict["costs"]
