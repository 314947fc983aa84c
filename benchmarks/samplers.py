"""Map samplers against RL4CO's own, in one run: median seconds per draw of 64 maps of 200 nodes.

make bench        or        python benchmarks/samplers.py
"""

import statistics
import time

from collections.abc import Callable

import torch

from rich.console import Console
from rich.table import Table
from rl4co.envs.common.distribution_utils import Cluster, Gaussian_Mixture, Mixed

from rl4co_prompt.tasks.geometry import geometry_from_name

BATCH, NODES = 64, 200
STOCK = {
    "uniform": Gaussian_Mixture(0, 0),
    "gaussian": Gaussian_Mixture(1, 1),
    "gm-3-10": Gaussian_Mixture(3, 10),
    "gm-7-50": Gaussian_Mixture(7, 50),
    "cluster": Cluster(3),
    "mixed": Mixed(1),
}
OURS = [*STOCK, "expansion", "explosion", "implosion", "grid"]


def median_seconds(draw: Callable[[], object], repeats: int) -> float:
    draw()  # warm-up
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        draw()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    rng = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    table = Table(title=f"{BATCH} maps of {NODES} customers, median per draw")
    for column in ("geometry", "RL4CO 0.7 [ms]", "rl4co_prompt [ms]", "ratio"):
        table.add_column(column, justify="left" if column == "geometry" else "right")
    for name in OURS:
        geometry = geometry_from_name(name)
        ours = median_seconds(lambda g=geometry: g.sample(BATCH, NODES, rng), 50)
        if name in STOCK:
            sampler = STOCK[name]
            stock = median_seconds(lambda s=sampler: s.sample((BATCH, NODES, 2)), 3)
            table.add_row(name, f"{1e3 * stock:.1f}", f"{1e3 * ours:.2f}", f"{stock / ours:,.0f}x")
        else:
            table.add_row(name, "-", f"{1e3 * ours:.2f}", "-")
    Console().print(table)


if __name__ == "__main__":
    main()
