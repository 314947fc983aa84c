"""Commands about prompt pools."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rl4co_prompt.cli.app import Force, Heads, Json, Norm, app, one_sentence_errors, print_json

if TYPE_CHECKING:
    from rl4co_prompt.policy.pool import PromptPool


@app.command()
def keys(
    backbone: Annotated[str, typer.Argument(help="file of the frozen model, or the name cvrp")],
    out: Annotated[Path, typer.Option(help="the new pool, .safetensors")],
    num_prompts: Annotated[int, typer.Option(help="pairs in the pool")] = 16,
    num_tokens: Annotated[int, typer.Option(help="tokens per layer")] = 5,
    groups: Annotated[int, typer.Option(help="groups of sizes")] = 4,
    per_task: Annotated[int, typer.Option(help="instances per task")] = 128,
    feature: Annotated[str, typer.Option(help="code or paper")] = "code",
    seed: Annotated[int, typer.Option(help="of instances and K-means")] = 0,
    num_heads: Heads = None,
    normalization: Norm = None,
    task: Annotated[list[str] | None, typer.Option(help="default: the 341 tasks")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make an untrained pool: fit keys on a backbone's features.

    Example: rl4co-prompt keys backbone.npz --out pool.safetensors --groups 1 --task 50-uniform
    """
    with one_sentence_errors():
        from rl4co_prompt.policy.files import check_new
        from rl4co_prompt.training.build import build_policy

        check_new(out, force)
        if not 0 <= seed < 2**32:
            raise ValueError(f"The seed must be from 0 to {2**32 - 1}, got {seed}.")
        policy = build_policy(
            backbone,
            pool_options={"num_prompts": num_prompts, "num_tokens": num_tokens, "feature": feature},
            key_options={"tasks": task, "groups": groups, "per_task": per_task, "seed": seed},
            backbone_options={"num_heads": num_heads, "normalization": normalization},
        )
        policy.save(out)
        show_pool(policy.pool, as_json)


@app.command()
def info(
    pool: Annotated[str, typer.Argument(help="a .safetensors file of a pool, or the name cvrp")],
    as_json: Json = False,
) -> None:
    """Show what a prompt pool holds.

    Example: rl4co-prompt info cvrp
    """
    with one_sentence_errors():
        from rl4co_prompt.training.grow import as_pool

        show_pool(as_pool(pool), as_json)


def show_pool(pool: "PromptPool", as_json: bool) -> None:
    """What a pool holds."""
    if not as_json:
        typer.echo(pool.summary())
        return
    print_json(
        {
            "num_prompts": pool.num_prompts,
            "num_layers": pool.num_layers,
            "num_tokens": pool.num_tokens,
            "embed_dim": pool.embed_dim,
            "feature": pool.feature,
            "gated": pool.gate is not None,
            "has_keys": pool.has_keys,
            "tasks": list(pool.tasks),
            "backbone": pool.backbone_fingerprint,
        }
    )
