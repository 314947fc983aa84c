"""Rollouts, training steps and memory against stock RL4CO: same weights, same instances, one run.

make bench        or        python benchmarks/engine.py [--quick]

Ratios are of medians; compiling the kernel is not counted. Weights are random: 6 layers, 128 wide.
"""

import argparse
import ctypes
import json
import math
import statistics
import subprocess
import sys
import time

from collections.abc import Callable
from pathlib import Path

import torch

from rich.console import Console
from rich.table import Table
from rl4co.data.transforms import StateAugmentation
from torch.utils._python_dispatch import TorchDispatchMode

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, PromptedPolicy, PromptPool
from rl4co_prompt.rollout import compiled

SIZES = (50, 100, 200, 500, 1000)
GREEDY = {"phase": "test", "decode_type": "multistart_greedy", "return_actions": False}


def setup(size: int, batch: int, copies: bool = False) -> tuple:
    torch.manual_seed(0)
    env = MultiTaskCVRPEnv(f"{size}-uniform", seed=0, check_solution=False)
    td = env.reset(env.generator(batch, rng=1))
    return POMOPolicy().eval(), env, StateAugmentation(8, "dihedral8")(td) if copies else td


def seconds(*runs: Callable[[], object], repeats: int) -> list[float]:
    """Medians of runs that take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()  # warm-up
    for _ in range(repeats):
        for run, own in zip(runs, times, strict=True):
            begin = time.perf_counter()
            run()
            own.append(time.perf_counter() - begin)
    return [statistics.median(own) for own in times]


def rollout_row(name: str, target: str, batch: int, copies: bool, repeats: int) -> list[str]:
    policy, env, td = setup(100, batch, copies)

    def run(engine: str) -> Callable[[], object]:
        return lambda: policy(td, env, engine=engine, **GREEDY)

    def plain() -> object:
        original, compiled.why_not_compiled = compiled.why_not_compiled, lambda *_: "asked to"
        try:
            return policy(td, env, engine="lean", **GREEDY)
        finally:
            compiled.why_not_compiled = original

    with torch.inference_mode():
        stock, lean, torch_only, generic = seconds(
            run("stock"), run("lean"), plain, run("generic"), repeats=repeats
        )
    others = f"plain torch {stock / torch_only:.1f}x, generic {stock / generic:.1f}x"
    return row(name, stock, lean, target, others)


def row(name: str, stock: float, ours: float, target: str, note: str = "") -> list[str]:
    return [name, f"{stock:.3f} s", f"{ours:.3f} s", f"{stock / ours:.1f}x", target, note]


def training_step(engine: str) -> Callable[[], object]:
    backbone, env, td = setup(100, 16)
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1))

    def step() -> None:
        policy.zero_grad()
        out = policy(td, env, phase="train", engine=engine, decode_type="multistart_sampling")
        reward, likelihood = (out[key].view(100, 16) for key in ("reward", "log_likelihood"))
        loss = -((reward - reward.mean(0)) * likelihood).mean()
        loss.backward()

    return step


def training_row(repeats: int) -> list[str]:
    stock, lean = seconds(training_step("stock"), training_step("lean"), repeats=repeats)
    return row("prompt-training step n=100, 16 instances", stock, lean, ">= 5x")


def memory_of(job: str) -> dict:
    """Run this file again for one job; a process of its own has a peak of its own."""
    out = subprocess.run(
        [sys.executable, __file__, "--job", job], check=True, capture_output=True, text=True
    )
    return json.loads(out.stdout.splitlines()[-1])


def resident(field: str) -> float:
    """VmRSS, resident now, or VmHWM, at most so far, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def peak(run: Callable[[], object]) -> dict:
    """Seconds, and megabytes of memory above what was there before (Linux)."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed memory back to the system
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    begin = time.perf_counter()
    run()
    spent = time.perf_counter() - begin
    return {"seconds": spent, "megabytes": resident("VmHWM") - before}


def job(name: str) -> dict:
    kind, engine, size = name.split("-")
    policy, env, td = setup(10, 2)
    with torch.no_grad():
        policy(td, env, engine=engine, **GREEDY)  # compile
    if kind == "train":
        small = policy(td, env, engine=engine, decode_type="multistart_sampling")
        small["log_likelihood"].sum().backward()
        return peak(training_step(engine))
    policy, env, td = setup(int(size), 1)
    with torch.inference_mode():
        return peak(lambda: policy(td, env, engine=engine, **GREEDY))


def memory_row() -> list[str]:
    stock, lean = (memory_of(f"train-{engine}-100")["megabytes"] for engine in ("stock", "lean"))
    ratio = f"1/{stock / lean:.1f}"
    return ["peak memory of that step", f"{stock:.0f} MB", f"{lean:.0f} MB", ratio, "<= 1/8", ""]


class Count(TorchDispatchMode):
    """Counts calls of aten operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function, kinds, arguments=(), options=None):
        self.calls += 1
        return function(*arguments, **(options or {}))


def operators(engine: str) -> float:
    """Per decode step, encoder excluded; on the lean path those of plain torch, as on a GPU."""
    policy, env, td = setup(50, 4)
    original, compiled.why_not_compiled = compiled.why_not_compiled, lambda *_: "asked to"
    try:
        with torch.inference_mode(), Count() as whole:
            out = policy(td, env, phase="test", engine=engine, decode_type="multistart_greedy")
    finally:
        compiled.why_not_compiled = original
    with torch.inference_mode(), Count() as encoder:
        policy.encoder(td)
    return (whole.calls - encoder.calls) / out["actions"].shape[1]


def operator_row() -> list[str]:
    stock, lean = operators("stock"), operators("lean")
    note = f"generic {operators('generic'):.0f}"
    ratio = f"1/{stock / lean:.1f}"
    return ["aten operators per decode step", f"{stock:.0f}", f"{lean:.0f}", ratio, "<= 1/4", note]


def matmul_peak() -> float:
    """FLOP per second of a large matrix product."""
    x = torch.randn(1024, 1024)
    (spent,) = seconds(lambda: x @ x, repeats=20)
    return 2 * 1024**3 / spent


def peak_row(repeats: int) -> list[str]:
    """Arithmetic of masked nodes is not counted: it is not done."""
    policy, env, td = setup(100, 16)
    with torch.inference_mode():
        actions = policy(td, env, phase="test", decode_type="multistart_greedy")["actions"]
        (spent,) = seconds(lambda: policy(td, env, engine="lean", **GREEDY), repeats=repeats)
        (encoding,) = seconds(lambda: policy.encoder(td), repeats=repeats)
        limit = matmul_peak()
    width, heads, nodes = 128, 8, 101
    encoder = 16 * 6 * nodes * (2 * 4 * width**2 + 2 * 2 * width * 512 + 4 * nodes * width)
    decoder = (4 * width + 8 * heads) * allowed_nodes(td, actions)
    rates = (encoder + decoder) / spent, decoder / (spent - encoding), encoder / encoding
    shares = [f"{100 * rate / limit:.0f} %" for rate in rates]
    note = f"decoder {shares[1]}, encoder {shares[2]}; peak {limit / 1e9:.0f} GFLOP/s"
    return ["share of the matrix-multiply peak, 16 instances", "", shares[0], "", "", note]


def allowed_nodes(td, actions: torch.Tensor) -> int:
    """Unmasked nodes of all steps of all tours."""
    td, total = td.repeat(100), 0
    demand = torch.nn.functional.pad(td["demand"], (1, 0))
    open_, used = torch.ones_like(demand, dtype=torch.bool), torch.zeros(len(td), 1)
    for action in actions.T[..., None]:
        allowed = open_ & (demand + used <= 1 + 1e-5)
        total += int(allowed[open_[:, 1:].any(1)].sum())
        open_.scatter_(1, action, action == 0)
        used = (used + demand.gather(1, action)) * (action != 0)
    return total


def growth_rows(quick: bool) -> list[list[str]]:
    sizes = SIZES[:3] if quick else SIZES
    rows, found = [], []
    for size in sizes:
        lean = memory_of(f"solve-lean-{size}")
        found.append(lean)
        stock = memory_of(f"solve-stock-{size}")
        rows.append(
            [
                f"growth: one instance, {size} starts of n={size}",
                f"{stock['seconds']:.2f} s, {stock['megabytes']:.0f} MB",
                f"{lean['seconds']:.2f} s, {lean['megabytes']:.0f} MB",
                f"{stock['seconds'] / lean['seconds']:.1f}x",
                "",
                "",
            ]
        )
    logs = [math.log(size) for size in sizes]
    exponents = [
        slope(logs, [math.log(max(one[key], 1e-9)) for one in found])
        for key in ("seconds", "megabytes")
    ]
    text = f"time n^{exponents[0]:.1f}, memory n^{exponents[1]:.1f}"
    return [*rows, ["growth: fitted exponents", "", text, "", "", ""]]


def slope(x: list[float], y: list[float]) -> float:
    return statistics.linear_regression(x, y).slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repeat, n up to 200")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job)))
        return
    repeats = 1 if options.quick else 3
    title = f"Greedy rollouts with all starts, {torch.get_num_threads()} CPU threads"
    table = Table(title=title)
    for column in ("what", "stock RL4CO", "rl4co_prompt", "ratio", "target", "beside"):
        table.add_column(column, justify="left" if column in ("what", "beside") else "right")
    rows = [
        lambda: [rollout_row("n=100, one instance", ">= 8x", 1, False, 3 * repeats)],
        lambda: [rollout_row("n=100, one instance x 8 copies", ">= 4x", 1, True, repeats)],
        lambda: [rollout_row("n=100, 16 instances", ">= 4x", 16, False, repeats)],
        lambda: [rollout_row("n=100, 64 instances", ">= 4x", 64, False, repeats)],
        lambda: [training_row(repeats)],
        lambda: [memory_row()],
        lambda: [operator_row()],
        lambda: [peak_row(3 * repeats)],
        lambda: growth_rows(options.quick),
    ]
    console = Console()
    for make in rows:
        for one in make():
            table.add_row(*one)
            console.print("  ".join(one), style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
