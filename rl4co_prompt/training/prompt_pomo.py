"""PromptPOMO: POMO's REINFORCE on the prompts of a frozen policy."""

from collections.abc import Callable
from typing import Any

import torch

from rl4co.envs import RL4COEnvBase
from torch import nn

from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.tasks.schedule import Schedule
from rl4co_prompt.training.multi_task import MultiTaskPOMO


class PromptPOMO(MultiTaskPOMO):
    """POMO that trains only the prompts of a :class:`PromptedPolicy`, one task per epoch.

    Args:
        env: of :func:`task_env`, or any of RL4CO's for its attention policies.
        policy: the prompted policy.
        schedule: the task of each epoch; the paper's 341 tasks in order by default.
        freeze_unselected: leave prompts that no instance of the batch chose as they are; else
            the optimizer's momentum and weight decay move them too.
        **options: of :class:`MultiTaskPOMO`.
    """

    def __init__(
        self,
        env: RL4COEnvBase,
        policy: PromptedPolicy,
        schedule: Schedule | None = None,
        *,
        freeze_unselected: bool = True,
        **options: Any,
    ):
        if not isinstance(policy, PromptedPolicy):
            raise TypeError(f"PromptPOMO trains a PromptedPolicy, got {type(policy).__name__}.")
        super().__init__(env, policy, schedule, **options)
        self.freeze_unselected = freeze_unselected
        self._chosen = torch.zeros(policy.pool.num_prompts, dtype=torch.bool)
        self.last_prompts = torch.zeros(0, dtype=torch.long)  # chosen by the last training batch

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        options = super().defaults()
        options["optimizer_kwargs"] = {"lr": 1e-2, "weight_decay": 1e-6}
        options["metrics"]["train"].append("prompts_used")
        return options

    def log_metrics(self, metric_dict: dict, phase: str, dataloader_idx: int | None = None) -> dict:
        """Also the prompts in use."""
        metric_dict = dict(metric_dict)
        if phase == "train":
            self.last_prompts = metric_dict[PROMPT]
            self._chosen = self._chosen.to(self.last_prompts.device)
            self._chosen[self.last_prompts] = True
            metric_dict["prompts_used"] = float(self.last_prompts.unique().numel())
        return super().log_metrics(metric_dict, phase, dataloader_idx)

    def trained(self) -> list[nn.Parameter]:
        return list(self.policy.pool.parameters())

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Step, then put back the prompts that no instance of the batch chose."""
        parameters = list(self.policy.pool.parameters())
        before = [p.detach().clone() for p in parameters]
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        chosen = self.all_gather(self._chosen).view(-1, len(self._chosen)).any(0)
        if self.freeze_unselected:
            with torch.no_grad():
                for parameter, old in zip(parameters, before, strict=True):
                    parameter[~chosen] = old[~chosen]
        self._chosen.zero_()

    def on_save_checkpoint(self, checkpoint: dict) -> None:
        """Keep the pool and the name of its backbone; the backbone has its own file."""
        super().on_save_checkpoint(checkpoint)
        frozen = self._frozen_keys()
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {k: v for k, v in state.items() if k not in frozen}
        checkpoint["backbone"] = self.policy.fingerprint

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        mark = checkpoint.get("backbone")
        if mark != self.policy.fingerprint:
            raise ValueError(
                f"The checkpoint belongs to backbone {mark}, this policy has "
                f"{self.policy.fingerprint}; load the backbone that the run started with."
            )
        state, frozen = self.state_dict(), self._frozen_keys()
        shapes = {k: v.shape for k, v in checkpoint["state_dict"].items()}
        if shapes != {k: v.shape for k, v in state.items() if k not in frozen}:
            raise ValueError(
                "The checkpoint's pool differs in prompts, tokens, feature or gate; give the "
                "pool the options that the run started with."
            )
        super().on_load_checkpoint(checkpoint)
        checkpoint["state_dict"].update({key: state[key] for key in frozen})

    def _frozen_keys(self) -> set[str]:
        return {
            key
            for key in self.state_dict()
            if key.startswith(("policy.encoder.encoder.", "policy.decoder."))
        }
