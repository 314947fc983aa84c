"""Commands about weights."""

from pathlib import Path
from typing import Annotated

import typer

from rl4co_prompt.cli.app import Force, Heads, Json, Norm, app, one_sentence_errors, print_json


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="weights: .pt, .ckpt, .npz or .safetensors")],
    to: Annotated[Path, typer.Option(help="folder of the new files")],
    name: Annotated[str | None, typer.Option(help="of the new files; the old by default")] = None,
    num_heads: Heads = None,
    normalization: Norm = None,
    problem: Annotated[
        str | None, typer.Option(help="of RL4CO's or Kool's weights, where the file does not tell")
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="file of PromptVRP's keys")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Turn anyone's weights into a backbone, with a card that says what they are.

    Knows POMO (both releases), Omni-VRP, AMDKD, PromptVRP, Kool's attention model and RL4CO.

    Example: rl4co-prompt import checkpoint-30500.pt --to weights --name pomo-cvrp100
    """
    with one_sentence_errors():
        from rl4co_prompt.policy.importing import import_weights

        done = import_weights(
            file,
            to,
            name,
            num_heads=num_heads,
            normalization=normalization,
            problem=problem,
            keys=keys,
            force=force,
        )
        files = {"backbone": done.backbone, "prompts": done.pool, "card": done.card}
        if as_json:
            names = {what: str(path) for what, path in files.items() if path}
            print_json(
                {"layout": done.layout, "config": done.config, "assumed": done.assumed, **names}
            )
            return
        options = ", ".join(f"{option} {value}" for option, value in done.config.items())
        typer.echo(f"{done.layout}: {options}")
        for what, path in files.items():
            if path:
                typer.echo(f"  {what:8}  {path}")
        for sentence in done.assumed:
            typer.echo(f"Assumed: {sentence}")
