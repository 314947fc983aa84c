"""The token-size table: prompts of several lengths side by side."""

from rl4co_prompt.evaluation.evaluate import Evaluation
from rl4co_prompt.evaluation.table import Table, as_figure
from rl4co_prompt.policy.pool import PromptPool


def token_table(result: Evaluation) -> Table | None:
    """Mean gaps by tokens per layer, where several pools are given; None for one or none."""
    prompted = [method for method in result.methods if method.kind == "prompt"]
    pools = {method.pool for method in prompted if method.pool is not None}
    if len(pools) < 2:
        return None
    tokens = {path: PromptPool.load(path).num_tokens for path in pools}
    rows = []
    for name in result.names():
        scores = [result.score(name, one.name) for one in result.sets]
        method = next((m for m in prompted if m.label == scores[0].method), None)
        if method is not None and method.pool is not None:
            rows.append((tokens[method.pool], name, [as_figure(s.mean_gap) for s in scores]))
    rows.sort(key=lambda row: row[0])
    columns = ["method", "tokens", *(one.label for one in result.sets)]
    return Table(
        "mean gap in % by tokens per layer",
        columns,
        [[name, str(count), *gaps] for count, name, gaps in rows],
    )
