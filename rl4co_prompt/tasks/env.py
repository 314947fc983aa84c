"""MultiTaskCVRPEnv: RL4CO's CVRP environment that follows its task."""

import inspect
import zipfile
import zlib

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl4co.data.dataset import FastTdDataset
from rl4co.envs.common.base import RL4COEnvBase
from rl4co.envs.routing.cvrp.env import CVRPEnv
from tensordict import TensorDict

from rl4co_prompt.tasks.generator import TaskGenerator
from rl4co_prompt.tasks.task import Task

_BASE_OPTIONS = frozenset(inspect.signature(RL4COEnvBase.__init__).parameters) - {"self", "kwargs"}


class MultiTaskCVRPEnv(CVRPEnv):
    """CVRP whose size, map and capacity may change from batch to batch.

    It keeps the name ``cvrp``, by which RL4CO picks embeddings; ``multi_cvrp`` is its key in
    RL4CO's registry.

    Args:
        task: the task or its name.
        generator: a ready :class:`TaskGenerator`, instead of ``task``.
        generator_params: arguments of :class:`TaskGenerator`, instead of ``task``.
        **options: of :class:`RL4COEnvBase`; an unknown one is an error.
    """

    def __init__(
        self,
        task: Task | str | None = None,
        generator: TaskGenerator | None = None,
        generator_params: dict[str, Any] | None = None,
        **options: Any,
    ):
        unknown = sorted(set(options) - _BASE_OPTIONS - {"name"})
        if unknown:
            raise TypeError(
                f"Unknown option {', '.join(unknown)}; size, geometry and capacity belong in "
                'task="50-uniform" or generator_params={"num_loc": 50}.'
            )
        if sum(source is not None for source in (task, generator, generator_params)) > 1:
            raise ValueError("Give one of task, generator and generator_params, not several.")
        if generator is None:
            generator = TaskGenerator(task, **(generator_params or {}))
        options.setdefault("dataset_cls", FastTdDataset)
        for phase in ("val", "test"):  # RL4CO numbers several files; their names say more
            files = options.get(f"{phase}_file")
            if files is not None and not isinstance(files, str | Path):
                stems = [Path(file).stem for file in files]
                options.setdefault(f"{phase}_dataloader_names", stems)
        self._seeds = options.get("seed") is not None
        options["seed"] = options.get("seed") or 0  # RL4CO would draw one
        super().__init__(generator=generator, **options)
        self._seeds = True

    @property
    def task(self) -> Task:
        """The task of the next batch."""
        return self.generator.task

    @task.setter
    def task(self, task: Task | str) -> None:
        self.generator.task = task

    def reset(self, td: TensorDict | None = None, batch_size: Any = None) -> TensorDict:
        if td is not None and not td.is_empty():
            # TorchRL merges the result into its input, so a second reset would see two depots.
            td = td.copy()
            if td.device is None and "locs" in td.keys():  # noqa: SIM118
                td = td.to(td["locs"].device)  # where RL4CO makes the rest of the state
        return super().reset(td, batch_size)

    def _reset(self, td: TensorDict | None = None, batch_size: Any = None) -> TensorDict:
        assert td is not None
        if "action_mask" in td.keys():  # noqa: SIM118
            td = td.copy()  # reset before, so locs begins with the depot
            td["depot"], td["locs"] = td["locs"][..., 0, :], td["locs"][..., 1:, :]
        check_instances(td)
        return super()._reset(td, batch_size)

    def _set_seed(self, seed: int | None) -> None:
        # RL4CO's constructor reseeds the global generator, asked to or not.
        if self._seeds:
            super()._set_seed(seed)
        else:
            self.rng = torch.default_generator

    def get_num_starts(self, td: TensorDict) -> int:
        return td["demand"].shape[-1]

    def select_start_nodes(self, td: TensorDict, num_starts: int) -> torch.Tensor:
        # RL4CO counts by the generator's size; the data's may differ.
        start = torch.arange(num_starts, device=td["locs"].device) % td["demand"].shape[-1] + 1
        return start.repeat_interleave(td.shape[0])

    def dataset(self, batch_size: Any = (), phase: str = "train", filename: Any = None) -> Any:
        """RL4CO's, but a file that is not there is an error instead of random instances."""
        named = getattr(self, f"{phase}_file") if filename is None else filename
        for path in [named] if isinstance(named, str | Path) else named or []:
            if not Path(path).is_file():
                raise FileNotFoundError(f"No instances at {path}, the {phase} file.")
        return super().dataset(batch_size, phase, filename)

    @staticmethod
    def load_data(fpath: str, batch_size: Any = None) -> TensorDict:
        """Read instances from .npz: ``depot``, ``locs`` or ``customers``, ``demand``, ``capacity``.

        Whole-numbered demands are in units of the capacity and get divided by it.
        A column ``hgs_cost`` or ``reference`` becomes the reference cost of the gap metrics.
        """
        data = read_npz(Path(fpath))
        if "customers" in data:
            data["locs"] = data.pop("customers")
        missing = {"depot", "locs", "demand", "capacity"} - set(data)
        if missing:
            raise ValueError(f"{fpath} lacks {', '.join(sorted(missing))}; it is not a CVRP set.")
        raw = (data["demand"] == np.floor(data["demand"])).all()
        size = len(data["locs"])
        capacity = np.broadcast_to(data["capacity"].reshape(-1, 1), (size, 1))
        arrays = {
            "depot": data["depot"].reshape(size, 2),
            "locs": data["locs"],
            "demand": data["demand"] / capacity if raw else data["demand"],
            "capacity": capacity,
        }
        reference = data.get("reference", data.get("hgs_cost"))
        if reference is not None:
            arrays["reference"] = reference
        td = TensorDict(
            {key: torch.tensor(value, dtype=torch.float32) for key, value in arrays.items()},
            batch_size=[size],
        )
        if not batch_size:
            return td
        return td[: batch_size if isinstance(batch_size, int) else torch.Size(batch_size).numel()]


def read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (
        ValueError,
        EOFError,
        TypeError,
        KeyError,
        AttributeError,
        RuntimeError,
        zlib.error,
        zipfile.BadZipFile,
    ):
        raise ValueError(f"{path} can't be read; expected an .npz file of plain arrays.") from None


def check_instances(td: TensorDict) -> None:
    """Raise a one-sentence error for instances that no vehicle can serve or no net can read."""
    for key in ("locs", "depot", "demand"):
        if key not in td.keys():  # noqa: SIM118
            raise ValueError(f"The instances lack {key!r}; CVRP needs locs, depot and demand.")
    locs, depot, demand = td["locs"], td["depot"], td["demand"]
    want = (*td.batch_size, demand.shape[-1], 2)
    if tuple(locs.shape) != want or tuple(depot.shape) != (*td.batch_size, 2):
        raise ValueError(
            f"locs must be {list(want)} and depot {[*td.batch_size, 2]} to fit demand "
            f"{list(demand.shape)}, got {list(locs.shape)} and {list(depot.shape)}."
        )
    if demand.shape[-1] == 0:
        raise ValueError("The instances have no customers; give at least one.")
    for key in ("locs", "depot", "demand"):
        if not torch.isfinite(td[key]).all():
            raise ValueError(f"{key} has a NaN or infinite value; clean the data first.")
    if (demand > 1 + 1e-5).any():
        raise ValueError(
            f"A demand of {demand.max():.4g} exceeds the vehicle capacity of 1; divide demands by "
            "the capacity, and split customers that no vehicle can serve."
        )
    if (demand < 0).any():
        raise ValueError(f"A demand of {demand.min():.4g} is negative; demands must be 0 or more.")
