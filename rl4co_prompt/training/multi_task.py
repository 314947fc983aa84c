"""MultiTaskPOMO: POMO over many tasks, by rewards or from teachers."""

import warnings

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from lightning.pytorch.trainer.states import TrainerFn
from omegaconf import Container, OmegaConf
from rl4co.envs import RL4COEnvBase
from rl4co.models.rl.reinforce.reinforce import REINFORCE
from rl4co.models.zoo.pomo import POMO
from tensordict import TensorDict
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rl4co_prompt.policy.backbone import kind_of
from rl4co_prompt.policy.layouts.rl4co import OWN
from rl4co_prompt.rollout.starts import ROLLOUTS, rollout_options
from rl4co_prompt.tasks.problems import follows_task
from rl4co_prompt.tasks.reset import reset
from rl4co_prompt.tasks.schedule import Schedule, Sequential
from rl4co_prompt.tasks.symmetry import Symmetries, square_of
from rl4co_prompt.tasks.task import (
    BATCH_SIZES,
    Task,
    as_tasks,
    batch_size_for,
    only_problem,
    training_tasks,
)
from rl4co_prompt.training.batches import TaskBatches, seeded
from rl4co_prompt.training.best import best_with
from rl4co_prompt.training.distill import Distillation, Teacher
from rl4co_prompt.training.rates import LR_DECAYS, falling

VALIDATION_SEED, TEST_SEED = 2022, 2023  # Omni-VRP's convention, beside 1234 for training
# No part of the saved hyperparameters.
LIVE_OBJECTS = ("env", "policy", "schedule", "val_tasks", "distillation")
DEFAULTS: dict[str, Any] = {
    "train_data_size": 1_000,  # instances per epoch
    "val_data_size": 64,
    "test_data_size": 64,
    "val_batch_size": 32,
    "optimizer_kwargs": {"lr": 1e-4, "weight_decay": 1e-6},
    "metrics": {
        "train": ["loss", "reward", "max_reward", "kl", "features"],
        "val": ["reward", "max_reward", "max_aug_reward", "gap", "gap_aug"],
        "test": ["reward", "max_reward", "max_aug_reward", "gap", "gap_aug"],
    },
}
TASK_PER = ("epoch", "batch")


class MultiTaskPOMO(POMO):
    """POMO whose task changes between epochs or batches.

    Data and sampling depend on ``seed``, epoch and step alone, so that a run resumed from the
    checkpoint of an epoch goes on with exactly the losses of an uninterrupted one.

    Args:
        env: of :func:`task_env`, or any of RL4CO's for its attention policies.
        policy: an RL4CO policy; what of it asks for gradients is trained.
        schedule: the task of each epoch or batch; the paper's 341 tasks in order by default. Only
            for an environment of :func:`task_env`, such as :class:`MultiTaskCVRPEnv`.
        task_per: ``epoch`` or ``batch``, how often the task changes.
        distillation: teachers; their tasks are learned from them, the others by rewards.
        val_tasks: tasks of the generated validation and test sets, unless the env has files.
        batch_sizes: up to which size of task, how many instances of a batch; PromptVRP's by
            default. A ``batch_size`` is for all sizes.
        rollouts: ``starts`` for POMO's; ``samples`` for tours that the policy begins, too, with
            their mean as baseline; ``auto`` takes starts wherever instances have two or more.
        relative_advantage: divide advantages by the mean cost of the instance's rollouts.
        best_of: learn for the expected best of so many of an instance's rollouts; 1 is POMO's mean.
        lr_decay: ``milestones`` or ``cosine``, down to zero at the end of the run; unless RL4CO's
            ``lr_scheduler`` is given.
        lr_milestones: fractions of the run after which the learning rate falls to a tenth.
        lr_warmup: fraction of the run in which the learning rate of ``cosine`` rises from zero.
        seed: of the training data and of the sampled rollouts.
        **pomo: of RL4CO's POMO. ``num_starts`` is the number of rollouts of an instance.
    """

    def __init__(
        self,
        env: RL4COEnvBase,
        policy: nn.Module,
        schedule: Schedule | None = None,
        task_per: str = "epoch",
        distillation: Distillation | None = None,
        val_tasks: Sequence[Task | str] = ("50-uniform", "100-uniform"),
        batch_sizes: Mapping[int, int] | None = None,
        rollouts: str = "auto",
        relative_advantage: bool = False,
        best_of: int = 1,
        lr_decay: str = "milestones",
        lr_milestones: Sequence[float] = (0.1, 0.2, 0.8),
        lr_warmup: float = 0.0,
        seed: int = 1234,
        **pomo: Any,
    ):
        name = type(self).__name__
        if not all(0 < fraction < 1 for fraction in lr_milestones):
            raise ValueError(f"lr_milestones must lie between 0 and 1, got {list(lr_milestones)}.")
        if not 0 <= lr_warmup < 1:
            raise ValueError(f"lr_warmup must be a fraction of the run, got {lr_warmup}.")
        if best_of < 1:
            raise ValueError(f"best_of must be at least 1 rollout, got {best_of}.")
        for option, value, known in (
            ("task_per", task_per, TASK_PER),
            ("lr_decay", lr_decay, LR_DECAYS),
            ("rollouts", rollouts, ROLLOUTS),
        ):
            if value not in known:
                raise ValueError(f"{option} must be {' or '.join(known)}, got {value!r}.")
        multi_task = follows_task(env)
        if schedule is not None and not multi_task:
            raise ValueError(
                f"A schedule needs MultiTaskCVRPEnv, got {type(env).__name__}; leave it out, or "
                "make the env by task_env."
            )
        if not isinstance(schedule, Schedule | None):
            raise TypeError(
                f"schedule must be a Schedule such as Sequential(tasks), got {schedule!r}."
            )
        if task_per == "batch" and not multi_task:
            raise ValueError(
                f"{name} changes the task per batch on a MultiTaskCVRPEnv only, or another of "
                "task_env."
            )
        follow_size = pomo.get("batch_size") is None
        if batch_sizes is not None and not (batch_sizes and min(batch_sizes.values()) > 0):
            raise ValueError(f"batch_sizes must name batches of at least 1, got {batch_sizes}.")
        pomo = self.defaults() | {key: _plain(value) for key, value in pomo.items()}
        pomo["batch_size"] = 64 if follow_size else pomo["batch_size"]
        with warnings.catch_warnings():
            # Lightning warns of modules among the hyperparameters; they are taken out below.
            warnings.filterwarnings("ignore", "Attribute .* is an instance of `nn.Module`")
            super().__init__(env, policy, **pomo)
        for live in LIVE_OBJECTS:
            self._hparams.pop(live, None)
        self._hparams_initial.clear()
        self.schedule = _schedule(env, schedule) if multi_task else None
        self.task_per = task_per
        self.distillation = distillation
        self.val_tasks = as_tasks(val_tasks, env.generator.task.problem) if multi_task else []
        self.rollouts = rollouts
        if self.augment is not None and "augment_fn" not in pomo:
            self.augment.augmentation = Symmetries(*square_of(env))
        self.batch_follows_size = follow_size and multi_task
        self.batch_sizes = BATCH_SIZES if batch_sizes is None else dict(batch_sizes)
        self.relative_advantage, self.best_of = relative_advantage, best_of
        self.lr_decay, self.lr_warmup = lr_decay, lr_warmup
        self.lr_milestones = tuple(lr_milestones)
        self.seed = seed
        self._reference: Tensor | None = None
        if distillation is not None:
            distillation.prepare(policy)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Options of RL4CO's POMO."""
        return deepcopy(DEFAULTS)

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
            with seeded(seed, device=self.device):
                return self.env.dataset(size, phase)
        generator, sets = self.env.generator, {}
        now = generator.task
        for task in self.val_tasks:
            generator.task = task
            sets[task.name] = self.env.dataset_cls(generator(size, rng=seed))
        generator.task = now
        return sets

    def on_fit_start(self) -> None:
        if self.trainer.reload_dataloaders_every_n_epochs != 1:
            raise ValueError(
                f"{type(self).__name__} draws new data each epoch; use RL4COTrainer or "
                "Trainer(reload_dataloaders_every_n_epochs=1)."
            )

    def train_dataloader(self) -> DataLoader:
        """Fresh instances of the epoch's task, or of a task for each batch."""
        epoch, epochs = self.current_epoch, self.trainer.max_epochs or 0
        if self.schedule is not None and self.task_per == "batch":
            return TaskBatches(
                self.env.generator,
                self.schedule,
                self.instances_of_batch,
                self.batches_of_epoch,
                epoch,
                epochs,
                self.seed,
                self.device,
                self.trainer.world_size,
            ).loader()
        count = self.data_cfg["train_data_size"]
        if self.schedule is not None:
            task = self.schedule.task(epoch, epochs)
            self.env.generator.task = task
            self.train_batch_size, count = self.batch_size_of(task), self.instances_of_epoch(task)
        with seeded(self.seed, epoch, device=self.device):
            dataset = self.wrap_dataset(self.env.dataset(count, phase="train"))
        return self._dataloader(dataset, self.train_batch_size, self.shuffle_train_dataloader)

    def batch_size_of(self, task: Task) -> int:
        size: int = self.data_cfg["batch_size"]
        if not self.batch_follows_size:
            return size
        return batch_size_for(task.num_loc, self.batch_sizes)

    @property
    def batches_of_epoch(self) -> int:
        """Where they do not depend on the size."""
        return max(1, self.data_cfg["train_data_size"] // self.data_cfg["batch_size"])

    def instances_of_epoch(self, task: Task) -> int:
        """What is drawn for an epoch that has one task."""
        count: int = self.data_cfg["train_data_size"]
        return count

    def instances_of_batch(self, task: Task) -> int:
        """What is drawn for a batch where the task changes with it."""
        return self.batch_size_of(task)

    def on_train_epoch_end(self) -> None:
        """Nothing to regenerate: :meth:`train_dataloader` draws the next epoch's data."""

    def shared_step(
        self, batch: Any, batch_idx: int, phase: str, dataloader_idx: int | None = None
    ) -> dict:
        self._reference = batch.get("reference", None)
        if phase != "train":
            with seeded(self.seed, batch_idx, device=self.device):  # of sampled rollouts
                return self._by_rewards(batch, phase, dataloader_idx)
        numbers = (self.seed, self.global_step, self.global_rank, batch_idx)
        with seeded(*numbers, device=self.device):
            teacher = self._teacher_of(batch)
            if self.distillation is None or teacher is None:
                return self._by_rewards(batch, phase, dataloader_idx)
            progress = self.current_epoch / max(self.trainer.max_epochs or 1, 1)
            out = self.distillation.loss(
                self.policy, teacher, reset(self.env, batch), self.env, progress
            )
            return {"loss": out["loss"], **self.log_metrics(out, phase)}

    def _teacher_of(self, batch: Any) -> Teacher | None:
        """None if one of the processes has no teacher for its batch: they must not part ways."""
        if self.distillation is None:
            return None
        teacher = self.distillation.teacher_of(batch)
        taught = self.trainer.strategy.reduce_boolean_decision(teacher is not None)
        return teacher if taught else None

    def _by_rewards(self, batch: Any, phase: str, dataloader_idx: int | None) -> dict:
        """RL4CO's POMO step, with starts for any problem and in any size."""
        td, copies = reset(self.env, batch), 1
        if phase != "train" and self.augment is not None and "locs" in td.keys():  # noqa: SIM118
            td, copies = self.augment(td), self.num_augment
        options = rollout_options(td, self.num_starts, self.rollouts)
        count = options["num_starts" if "num_starts" in options else "num_samples"]
        out = self.policy(td, self.env, phase=phase, **options)
        reward, likelihood = (
            out[key].view(count, copies, -1).permute(2, 1, 0)  # [batch, copy, start]
            for key in ("reward", "log_likelihood")
        )
        best = reward.amax(-1)
        if phase == "train":
            self.calculate_loss(td, batch, out, reward[:, 0], likelihood[:, 0])
            out["max_reward"] = best[:, 0]
        else:
            out |= {"max_reward": best, "max_aug_reward": best.amax(1)}
        metrics = self.log_metrics(out, phase, dataloader_idx=dataloader_idx)
        return {"loss": out.get("loss"), **metrics}

    def calculate_loss(
        self,
        td: TensorDict,
        batch: TensorDict,
        policy_out: dict,
        reward: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> dict:
        if reward is not None and reward.shape[-1] < 2:
            raise ValueError("Training compares rollouts, so num_starts must exceed 1.")
        if self.relative_advantage and reward is not None:
            reward = reward / reward.mean(-1, keepdim=True).abs()
        if self.best_of > 1 and reward is not None:
            reward = best_with(reward, self.best_of)
        return super().calculate_loss(td, batch, policy_out, reward, log_likelihood)

    def log_metrics(self, metric_dict: dict, phase: str, dataloader_idx: int | None = None) -> dict:
        """RL4CO's metrics and the gaps to reference costs."""
        metric_dict = dict(metric_dict)
        if self._reference is not None and "max_reward" in metric_dict:
            best = metric_dict["max_reward"].reshape(len(self._reference), -1)
            metric_dict["gap"] = _gap(best[:, 0], self._reference)  # copy 0 is the instance itself
            metric_dict["gap_aug"] = _gap(best.amax(1), self._reference)
        return super().log_metrics(metric_dict, phase, dataloader_idx)

    def trained(self) -> list[nn.Parameter]:
        """What the optimizer gets."""
        return [p for p in self.parameters() if p.requires_grad]

    def configure_optimizers(self, parameters: Any = None) -> Any:
        """The trained parameters, and a learning rate that falls in the course of the run."""
        optimizer = super().configure_optimizers(
            self.trained() if parameters is None else parameters
        )
        if self._lr_scheduler_name_or_cls is not None or not self._depends_on_length():
            return optimizer
        run = self.trainer.max_epochs
        if run is None or run < 1:
            raise ValueError(
                "The learning rate follows the length of the run; set max_epochs, or "
                "lr_milestones=()."
            )
        rate = falling(optimizer, self.lr_decay, run, self.lr_milestones, self.lr_warmup)
        return [optimizer], [rate]

    def _depends_on_length(self) -> bool:
        return self.lr_decay == "cosine" or bool(self.lr_milestones)

    def on_save_checkpoint(self, checkpoint: dict) -> None:
        """Keep the weights, what policy they are of, and the length of the run."""
        checkpoint["max_epochs"] = self.trainer.max_epochs
        kind = kind_of(self.policy)
        if kind is not None:
            checkpoint[OWN] = {"policy": kind, "config": self.policy.config}
        checkpoint.pop("hyper_parameters", None)

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        if self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING:
            self._check_resumable(checkpoint)

    def _check_resumable(self, checkpoint: dict) -> None:
        if not checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"]:
            raise ValueError(
                "The checkpoint was written in the middle of an epoch; resume from one of an "
                "epoch's end, where data and losses go on exactly."
            )
        before, now = checkpoint["max_epochs"], self.trainer.max_epochs
        if self._depends_on_length() and before != now:
            raise ValueError(
                f"The checkpoint is of a run of {before} epochs and this one has {now}, which "
                "moves the learning-rate milestones; keep max_epochs, or start a new run from "
                "the saved weights."
            )

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: str | Path, env: RL4COEnvBase, policy: nn.Module, **options: Any
    ) -> "MultiTaskPOMO":
        """Restore a run's weights into ``policy``; ``options`` are the constructor's."""
        # RL4CO's version unpickles the file and ignores missing weights.
        load = super(REINFORCE, cls).load_from_checkpoint
        return load(checkpoint_path, weights_only=True, env=env, policy=policy, **options)


def _schedule(env: RL4COEnvBase, schedule: Schedule | None) -> Schedule:
    """The given one, if its tasks are of the environment's problem, or the paper's tasks."""
    problem = env.generator.task.problem
    if schedule is None:
        return Sequential(training_tasks(problem))
    if only_problem(schedule.tasks) != problem:
        raise ValueError(
            f"The schedule has tasks of {only_problem(schedule.tasks)}, the environment is of "
            f"{problem}; write {problem}:SIZE-GEOMETRY."
        )
    return schedule


def _gap(reward: Tensor, reference: Tensor) -> Tensor:
    """Mean of the instances' gaps in percent."""
    return (100 * (-reward - reference) / reference).mean()


def _plain(value: Any) -> Any:
    """Hydra's containers as Python's own, which checkpoints and loggers can hold."""
    return OmegaConf.to_container(value, resolve=True) if isinstance(value, Container) else value
