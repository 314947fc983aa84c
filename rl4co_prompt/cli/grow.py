"""Commands that add to prompt pools."""

from pathlib import Path
from typing import Annotated

import typer

from rl4co_prompt.cli.app import Force, Heads, Json, Norm, Weights, app, one_sentence_errors
from rl4co_prompt.cli.pools import show_pool
from rl4co_prompt.cli.solve import Capacity, Files

Pool = Annotated[str, typer.Option(help=".safetensors file, or the name cvrp")]
Out = Annotated[Path, typer.Option(help="the new pool, .safetensors")]


@app.command()
def grow(
    files: Files,
    pool: Pool,
    out: Out,
    weights: Weights = "cvrp",
    task: Annotated[str | None, typer.Option(help="whose instances are trained on, too")] = None,
    name: Annotated[str | None, typer.Option(help="of the new distribution")] = None,
    steps: Annotated[int, typer.Option(help="of training")] = 200,
    batch_size: Annotated[int, typer.Option(help="instances of a step")] = 32,
    lr: Annotated[float, typer.Option(help="learning rate at the start")] = 1e-2,
    seed: Annotated[int, typer.Option(help="of the training")] = 0,
    capacity: Capacity = None,
    num_heads: Heads = None,
    normalization: Norm = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add a key-prompt pair for your own instances; the old pairs stay as they are.

    Example: rl4co-prompt grow my-instances --pool cvrp --out mine.safetensors
    """
    with one_sentence_errors():
        from rl4co_prompt.inference.inputs import read_instances
        from rl4co_prompt.policy.backbone import load_backbone
        from rl4co_prompt.policy.files import check_new
        from rl4co_prompt.training.grow import Training, add_distribution, as_pool

        check_new(out, force)
        old = as_pool(pool)
        instances = [instance for file in files for instance in read_instances(file, capacity)]
        grown = add_distribution(
            old,
            instances,
            load_backbone(weights, num_heads=num_heads, normalization=normalization),
            task=task,
            name=name,
            training=Training(steps, batch_size, lr=lr, seed=seed),
        )
        grown.save(out)
        show_pool(grown, as_json)


@app.command()
def merge(
    pools: Annotated[list[str], typer.Argument(help=".safetensors files, or the name cvrp")],
    out: Out,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Put the pairs of several pools of one backbone into one pool.

    Example: rl4co-prompt merge cvrp mine.safetensors --out both.safetensors
    """
    with one_sentence_errors():
        from functools import reduce

        from rl4co_prompt.policy.files import check_new
        from rl4co_prompt.training.grow import as_pool, merge_pools

        check_new(out, force)
        if len(pools) < 2:
            raise ValueError("Give at least two pools to merge.")
        merged = reduce(merge_pools, map(as_pool, pools))
        merged.save(out)
        show_pool(merged, as_json)
