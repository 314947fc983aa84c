"""``rl4co-prompt``: thin commands over the package. Heavy imports wait until they are needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Prompt learning for generalised vehicle routing with RL4CO.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def tasks(
    unseen: Annotated[bool, typer.Option(help="the 12 test tasks instead")] = False,
) -> None:
    """List the training tasks, or the unseen test tasks.

    Example: rl4co-prompt tasks --unseen
    """
    from rl4co_prompt.tasks.task import training_tasks, unseen_tasks

    for index, task in enumerate(unseen_tasks() if unseen else training_tasks()):
        typer.echo(f"{index:3d}  {task.name:16s}  capacity {task.capacity}")


@app.command()
def keys(
    backbone: Annotated[Path, typer.Argument(help="weights of the frozen model")],
    out: Annotated[Path, typer.Option(help="the new pool, .safetensors")],
    num_prompts: Annotated[int, typer.Option(help="pairs in the pool")] = 16,
    num_tokens: Annotated[int, typer.Option(help="tokens per layer")] = 5,
    groups: Annotated[int, typer.Option(help="groups of sizes")] = 4,
    per_task: Annotated[int, typer.Option(help="instances per task")] = 128,
    feature: Annotated[str, typer.Option(help="code or paper")] = "code",
    seed: Annotated[int, typer.Option(help="of instances and K-means")] = 0,
    num_heads: Annotated[int, typer.Option(help="of the backbone; files do not tell")] = 8,
    task: Annotated[list[str] | None, typer.Option(help="default: the 341 tasks")] = None,
) -> None:
    """Make an untrained pool: fit keys on a backbone's features.

    Example: rl4co-prompt keys backbone.npz --out pool.safetensors --groups 1 --task 50-uniform
    """
    with one_sentence_errors():
        from rl4co_prompt.policy.files import check_suffix
        from rl4co_prompt.training.build import build_policy

        check_suffix(out)
        policy = build_policy(
            backbone,
            pool_options={"num_prompts": num_prompts, "num_tokens": num_tokens, "feature": feature},
            key_options={"tasks": task, "groups": groups, "per_task": per_task, "seed": seed},
            backbone_options={"num_heads": num_heads},
        )
        policy.save(out)
        typer.echo(policy.pool.summary())


@app.command()
def info(pool: Annotated[Path, typer.Argument(help="a .safetensors file of a pool")]) -> None:
    """Show what a prompt pool holds.

    Example: rl4co-prompt info pool.safetensors
    """
    with one_sentence_errors():
        from rl4co_prompt.policy.pool import PromptPool

        typer.echo(PromptPool.load(pool).summary())


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Bad input ends with its sentence, not with a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
