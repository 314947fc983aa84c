"""Torch tensors in and out of the compiled kernel, instance by instance on all cores."""

import importlib.util

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from torch import Tensor

from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.faults import check_tours
from rl4co_prompt.rollout.pointer import PointerModel

LOG2_E = 1.4426950408889634
WORK_PER_TASK = 4e9  # multiplications of a task: some tenths of a second, to be interruptible
TASKS_PER_WORKER = 4  # so that workers that are held up hold up little
LEAST_STARTS = 8  # of a task, whose first work is a table for all of them


def why_not_compiled(model: PointerModel, budget: float) -> str | None:
    """What keeps instances from the compiled kernel, or None."""
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed: pip install 'rl4co-prompt[fast]'"
    if model.key.device.type != "cpu" or model.key.dtype != torch.float32:
        return f"it is for float32 on the CPU, not {model.key.dtype} on {model.key.device}"
    if model.key.shape[-1] // model.heads % 8:
        return "the width of a head is no multiple of 8"
    if 2 * _workers() * table_bytes(model) > budget:  # scores and their gradient
        return "its tables of attention scores exceed the memory budget"
    return None


def table_bytes(model: PointerModel) -> int:
    """Of an instance's attention scores."""
    return 4 * model.heads * model.query.shape[1] * model.key.shape[1]


def tours(
    model: PointerModel,
    count: int,
    starts: Tensor | None,
    states: Tensor | None,
    decoding: Decoding,
) -> tuple[Tensor, Tensor]:
    """As :func:`rl4co_prompt.rollout.lean.tours`."""
    from rl4co_prompt.rollout import kernel

    arrays, sizes = _arrays(model), _sizes(model)
    grid = (len(model), count)
    actions = np.zeros((*grid, model.longest), np.int64)
    log_probs = np.zeros((*grid, model.longest), np.float32)
    lengths = np.zeros(grid, np.int64)
    faults: list[int] = []
    first = np.full(grid, -1) if starts is None else starts.contiguous().numpy()
    state = np.zeros(grid, np.uint64)
    if states is not None:
        state = states.contiguous().numpy().view(np.uint64)
    settings = _settings(model, decoding)

    def task(b: int, rows: slice) -> None:
        out = (actions[b, rows], log_probs[b, rows], lengths[b, rows])
        where = (first[b, rows], state[b, rows])
        faults.append(kernel.tours(*_instance(model, arrays, b), *where, settings, out, *sizes))

    work = model.longest * model.key.shape[1] * model.key.shape[2]
    even = -(-count * len(model) // (TASKS_PER_WORKER * _workers()))
    block = max(LEAST_STARTS, min(int(WORK_PER_TASK / work), even))
    _in_threads(task, _blocks(*grid, block))
    check_tours(kernel.STUCK in faults, kernel.NOT_A_NUMBER in faults)
    steps = int(lengths.max())
    return torch.from_numpy(actions)[..., :steps], torch.from_numpy(log_probs)[..., :steps]


def gradients(
    model: PointerModel, actions: Tensor, weights: Tensor, chooses: bool, decoding: Decoding
) -> list[Tensor | None]:
    """Gradient of the weighted log-probabilities by the model's weights.

    Args:
        actions, weights: [batch, start, step]
        chooses: whether the policy chose the first node itself.
    """
    from rl4co_prompt.rollout import kernel

    arrays, sizes = _arrays(model), _sizes(model)
    batch, starts, _ = actions.shape
    parts = min(starts, -(-_workers() // batch))  # a worker writes to arrays of its own
    block = -(-starts // parts)
    out = [np.zeros((parts, *array.shape), np.float32) for array in arrays]
    tours, weight = actions.contiguous().numpy(), weights.float().contiguous().numpy()
    settings = _settings(model, decoding)

    def task(b: int, rows: slice) -> None:
        mine = tuple(array[rows.start // block, b] for array in out)
        where = (chooses, tours[b, rows], weight[b, rows])
        kernel.gradients(*_instance(model, arrays, b), *where, settings, mine, *sizes)

    _in_threads(task, _blocks(batch, starts, block))
    return [
        None if weight is None else _heads_outermost(torch.from_numpy(array.sum(0)), weight, model)
        for array, weight in zip(out, model.weights(), strict=True)
    ]


def _arrays(model: PointerModel) -> list[np.ndarray]:
    """The weights as the kernel wants them: [batch, flat], heads innermost, queries in log2."""
    query, key, value, pointer, bias, first, slope = model.weights()
    scaled = [None if part is None else part * LOG2_E for part in (query, first, slope)]
    laid_out = [
        np.zeros((len(model), 0), np.float32) if part is None else _heads_innermost(part, model)
        for part in (scaled[0], key, value, pointer, scaled[1], scaled[2])
    ]
    assert bias is not None
    laid_out.insert(4, bias.detach().contiguous().numpy())
    return laid_out


def _heads_innermost(weight: Tensor, model: PointerModel) -> np.ndarray:
    """[batch, ..., head * width] -> [batch, ... * width * head]"""
    split = weight.detach().unflatten(-1, (model.heads, -1)).transpose(-1, -2)
    return split.reshape(len(weight), -1).contiguous().numpy()


def _heads_outermost(flat: Tensor, weight: Tensor, model: PointerModel) -> Tensor:
    """The inverse of :func:`_heads_innermost`; a bias has no heads."""
    if weight is model.bias:
        return flat.view_as(weight)
    width = weight.shape[-1] // model.heads
    split = flat.view(*weight.shape[:-1], width, model.heads)
    return split.transpose(-1, -2).reshape(weight.shape)


def _instance(model: PointerModel, arrays: list[np.ndarray], b: int) -> tuple[Any, ...]:
    weights = tuple(array[b] for array in arrays)
    if model.demand is None or model.capacity is None:
        return weights, np.zeros(model.key.shape[1], np.float32), np.float32(0), False
    return weights, model.demand[b].contiguous().numpy(), np.float32(model.capacity[b]), True


def _settings(model: PointerModel, decoding: Decoding) -> tuple[bool, Any, Any, bool]:
    clip, temperature = np.float32(decoding.clip), np.float32(decoding.temperature)
    return decoding.sampling, clip, temperature, bool(model.mask_inner)


def _sizes(model: PointerModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (0,) * model.heads, (0,) * (model.key.shape[-1] // model.heads)


def _workers() -> int:
    return torch.get_num_threads()


def _blocks(batch: int, starts: int, block: int) -> list[tuple[int, slice]]:
    return [
        (b, slice(low, min(low + block, starts)))
        for b in range(batch)
        for low in range(0, starts, block)
    ]


def _in_threads(task: Callable[[int, slice], None], jobs: Iterable[tuple[int, slice]]) -> None:
    """Run the jobs on torch's number of threads; an interrupt drops those not begun."""
    jobs = list(jobs)
    workers = min(_workers(), len(jobs))
    if workers == 1:
        for job in jobs:
            task(*job)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        for future in [pool.submit(task, *job) for job in jobs]:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)
