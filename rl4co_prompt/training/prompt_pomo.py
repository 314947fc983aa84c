"""PromptPOMO: POMO's REINFORCE on the prompts of a frozen policy."""

import math
import warnings

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from lightning.pytorch.trainer.states import TrainerFn
from omegaconf import Container, OmegaConf
from rl4co.envs import RL4COEnvBase
from rl4co.models.rl.reinforce.reinforce import REINFORCE
from rl4co.models.zoo.pomo import POMO
from tensordict import TensorDict
from torch import Tensor
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader

from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.policy.policy import PromptedPolicy
from rl4co_prompt.tasks.env import MultiTaskCVRPEnv
from rl4co_prompt.tasks.schedule import Schedule, Sequential
from rl4co_prompt.tasks.task import Task, as_tasks, batch_size_for

VALIDATION_SEED, TEST_SEED = 2022, 2023  # Omni-VRP's convention, beside 1234 for training
LIVE_OBJECTS = ("env", "policy", "schedule", "val_tasks")  # no part of the saved hyperparameters
DEFAULTS: dict[str, Any] = {
    "train_data_size": 1_000,  # instances per epoch
    "val_data_size": 64,
    "test_data_size": 64,
    "val_batch_size": 32,
    "optimizer_kwargs": {"lr": 1e-2, "weight_decay": 1e-6},
    "metrics": {
        "train": ["loss", "reward", "max_reward", "prompts_used"],
        "val": ["reward", "max_reward", "max_aug_reward", "gap", "gap_aug"],
        "test": ["reward", "max_reward", "max_aug_reward", "gap", "gap_aug"],
    },
}


class PromptPOMO(POMO):
    """POMO that trains only the prompts of a :class:`PromptedPolicy`, one task per epoch.

    Data and sampling depend on ``seed``, epoch and step alone, so that a run resumed from the
    checkpoint of an epoch goes on with exactly the losses of an uninterrupted one.

    Args:
        env: a :class:`MultiTaskCVRPEnv`, or any RL4CO environment that POMO works on.
        policy: the prompted policy.
        schedule: the task of each epoch; the paper's 341 tasks in order by default. Only for a
            :class:`MultiTaskCVRPEnv`.
        val_tasks: tasks of the generated validation and test sets, unless the env has files.
        relative_advantage: divide advantages by the mean cost of the instance's rollouts.
        lr_milestones: fractions of the run after which the learning rate falls to a tenth,
            unless RL4CO's ``lr_scheduler`` is given.
        freeze_unselected: leave prompts that no instance of the batch chose as they are; else
            the optimizer's momentum and weight decay move them too.
        seed: of the training data and of the sampled rollouts.
        **pomo: of RL4CO's POMO. ``batch_size`` follows the task's size unless given.
    """

    def __init__(
        self,
        env: RL4COEnvBase,
        policy: PromptedPolicy,
        schedule: Schedule | None = None,
        val_tasks: Sequence[Task | str] = ("50-uniform", "100-uniform"),
        relative_advantage: bool = False,
        lr_milestones: Sequence[float] = (0.1, 0.2, 0.8),
        freeze_unselected: bool = True,
        seed: int = 1234,
        **pomo: Any,
    ):
        if not isinstance(policy, PromptedPolicy):
            raise TypeError(f"PromptPOMO trains a PromptedPolicy, got {type(policy).__name__}.")
        if not all(0 < fraction < 1 for fraction in lr_milestones):
            raise ValueError(f"lr_milestones must lie between 0 and 1, got {list(lr_milestones)}.")
        multi_task = isinstance(env, MultiTaskCVRPEnv)
        if schedule is not None and not multi_task:
            raise ValueError(
                f"A schedule needs MultiTaskCVRPEnv, got {type(env).__name__}; leave it out."
            )
        if not isinstance(schedule, Schedule | None):
            raise TypeError(
                f"schedule must be a Schedule such as Sequential(tasks), got {schedule!r}."
            )
        follow_size = pomo.get("batch_size") is None
        pomo = deepcopy(DEFAULTS) | {key: _plain(value) for key, value in pomo.items()}
        pomo["batch_size"] = 64 if follow_size else pomo["batch_size"]
        with warnings.catch_warnings():
            # Lightning warns of modules among the hyperparameters; they are taken out below.
            warnings.filterwarnings("ignore", "Attribute .* is an instance of `nn.Module`")
            super().__init__(env, policy, **pomo)
        for name in LIVE_OBJECTS:
            self._hparams.pop(name, None)
        self._hparams_initial.clear()
        self.schedule = (schedule or Sequential()) if multi_task else None
        self.val_tasks = as_tasks(val_tasks) if multi_task else []
        self.batch_follows_size = follow_size and multi_task
        self.relative_advantage = relative_advantage
        self.lr_milestones = tuple(lr_milestones)
        self.freeze_unselected = freeze_unselected
        self.seed = seed
        self._chosen = torch.zeros(policy.pool.num_prompts, dtype=torch.bool)
        self.last_prompts = torch.zeros(0, dtype=torch.long)  # chosen by the last training batch
        self._reference: Tensor | None = None

    def setup(self, stage: str = "fit") -> None:
        """Make the validation and test sets; training data is drawn epoch by epoch."""
        sizes = self.data_cfg
        self.train_batch_size = sizes["batch_size"]
        self.val_batch_size = sizes["val_batch_size"]
        self.test_batch_size = sizes["test_batch_size"] or self.val_batch_size
        self.val_dataset = self._fixed_set("val", sizes["val_data_size"], VALIDATION_SEED)
        self.test_dataset = self._fixed_set("test", sizes["test_data_size"], TEST_SEED)
        self.dataloader_names = None
        self.setup_loggers()
        self.post_setup_hook()

    def _fixed_set(self, phase: str, size: int, seed: int) -> Any:
        """The env's file, or a generated set for each validation task."""
        if getattr(self.env, f"{phase}_file") is not None:
            return self.env.dataset([], phase)  # all of it
        if not self.val_tasks:
            with _seeded(seed, device=self.device):
                return self.env.dataset(size, phase)
        now, sets = self.env.task, {}
        for task in self.val_tasks:
            self.env.task = task
            sets[task.name] = self.env.dataset_cls(self.env.generator(size, rng=seed))
        self.env.task = now
        return sets

    def on_fit_start(self) -> None:
        if self.trainer.reload_dataloaders_every_n_epochs != 1:
            raise ValueError(
                "PromptPOMO draws new data each epoch; use RL4COTrainer or "
                "Trainer(reload_dataloaders_every_n_epochs=1)."
            )

    def train_dataloader(self) -> DataLoader:
        """Fresh instances of the epoch's task."""
        epoch = self.current_epoch
        if self.schedule is not None:
            self.env.task = self.schedule.task(epoch, self.trainer.max_epochs or 0)
            if self.batch_follows_size:
                self.train_batch_size = batch_size_for(self.env.task.num_loc)
        with _seeded(self.seed, epoch, device=self.device):
            dataset = self.wrap_dataset(
                self.env.dataset(self.data_cfg["train_data_size"], phase="train")
            )
        return self._dataloader(dataset, self.train_batch_size, self.shuffle_train_dataloader)

    def on_train_epoch_end(self) -> None:
        """Nothing to regenerate: :meth:`train_dataloader` draws the next epoch's data."""

    def shared_step(
        self, batch: Any, batch_idx: int, phase: str, dataloader_idx: int | None = None
    ) -> dict:
        self._reference = batch.get("reference", None)
        if phase != "train":
            return super().shared_step(batch, batch_idx, phase, dataloader_idx)
        numbers = (self.seed, self.global_step, self.global_rank, batch_idx)
        with _seeded(*numbers, device=self.device):
            return super().shared_step(batch, batch_idx, phase, dataloader_idx)

    def calculate_loss(
        self,
        td: TensorDict,
        batch: TensorDict,
        policy_out: dict,
        reward: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> dict:
        if self.relative_advantage and reward is not None:
            reward = reward / reward.mean(-1, keepdim=True).abs()
        return super().calculate_loss(td, batch, policy_out, reward, log_likelihood)

    def log_metrics(self, metric_dict: dict, phase: str, dataloader_idx: int | None = None) -> dict:
        """RL4CO's metrics, the gaps to reference costs, and the prompts in use."""
        metric_dict = dict(metric_dict)
        if phase == "train":
            self.last_prompts = metric_dict[PROMPT]
            self._chosen = self._chosen.to(self.last_prompts.device)
            self._chosen[self.last_prompts] = True
            metric_dict["prompts_used"] = float(self.last_prompts.unique().numel())
        if self._reference is not None and "max_reward" in metric_dict:
            best = metric_dict["max_reward"].reshape(len(self._reference), -1)
            metric_dict["gap"] = _gap(best[:, 0], self._reference)  # copy 0 is the instance itself
            metric_dict["gap_aug"] = _gap(best.amax(1), self._reference)
        return super().log_metrics(metric_dict, phase, dataloader_idx)

    def configure_optimizers(self, parameters: Any = None) -> Any:
        """The pool's parameters alone, and the milestones in epochs."""
        if parameters is None:
            parameters = list(self.policy.pool.parameters())
        configured = super().configure_optimizers(parameters)
        if not self.lr_milestones or self._lr_scheduler_name_or_cls is not None:
            return configured
        run = self.trainer.max_epochs
        if run is None or run < 1:
            raise ValueError(
                "lr_milestones are fractions of the run; set max_epochs, or lr_milestones=()."
            )
        epochs = [math.ceil(fraction * run) for fraction in self.lr_milestones]
        return [configured], [MultiStepLR(configured, epochs, gamma=0.1)]

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
        frozen = self._frozen_keys()
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {k: v for k, v in state.items() if k not in frozen}
        checkpoint["backbone"] = self.policy.fingerprint
        checkpoint["max_epochs"] = self.trainer.max_epochs
        checkpoint.pop("hyper_parameters", None)

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
        if self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING:
            self._check_resumable(checkpoint)
        checkpoint["state_dict"].update({key: state[key] for key in frozen})

    def _check_resumable(self, checkpoint: dict) -> None:
        if not checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"]:
            raise ValueError(
                "The checkpoint was written in the middle of an epoch; resume from one of an "
                "epoch's end, where data and losses go on exactly."
            )
        before, now = checkpoint["max_epochs"], self.trainer.max_epochs
        if self.lr_milestones and before != now:
            raise ValueError(
                f"The checkpoint is of a run of {before} epochs and this one has {now}, which "
                "moves the learning-rate milestones; keep max_epochs, or start a new run from "
                "the saved pool."
            )

    def _frozen_keys(self) -> set[str]:
        return {
            key
            for key in self.state_dict()
            if key.startswith(("policy.encoder.encoder.", "policy.decoder."))
        }

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: str | Path, env: RL4COEnvBase, policy: PromptedPolicy, **options: Any
    ) -> "PromptPOMO":
        """Restore a run's pool into ``policy``; ``options`` are the constructor's."""
        # RL4CO's version unpickles the file and ignores missing weights.
        load = super(REINFORCE, cls).load_from_checkpoint
        return load(checkpoint_path, weights_only=True, env=env, policy=policy, **options)


def _gap(reward: Tensor, reference: Tensor) -> Tensor:
    """Mean of the instances' gaps in percent."""
    return (100 * (-reward - reference) / reference).mean()


def _plain(value: Any) -> Any:
    """Hydra's containers as Python's own, which checkpoints and loggers can hold."""
    return OmegaConf.to_container(value, resolve=True) if isinstance(value, Container) else value


@contextmanager
def _seeded(*numbers: int, device: torch.device | None = None) -> Iterator[None]:
    """Torch's global random state from these numbers, and as it was afterwards."""
    state = 0
    for number in numbers:
        state = (state * 1_000_003 + number + 1) % (2**63)
    with torch.random.fork_rng([device] if device is not None and device.type == "cuda" else []):
        torch.manual_seed(state)
        yield
