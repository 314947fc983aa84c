"""Tables of an evaluation, for the terminal, Markdown, CSV and JSON."""

import csv
import io
import json
import math

from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from rl4co_prompt.evaluation.evaluate import Evaluation, Score
from rl4co_prompt.evaluation.suites import ORIGINS, SUITES
from rl4co_prompt.evaluation.table import Table, as_figure, as_seconds
from rl4co_prompt.inference.search import COPIES

PRINTED = "as printed"


def tables(result: Evaluation, paper: bool = False) -> list[Table]:
    """What every form of the report shows."""
    found = [gap_table(result, paper), budget_table(result), source_table(result)]
    return [*found, left_out_table(result)] if result.left_out else found


def gap_table(result: Evaluation, paper: bool = False) -> Table:
    """The paper's layout: methods by sets, and the average."""
    known = has_gaps(result)
    columns = ["method", *(one.label for one in result.sets)]
    rows = []
    for name in result.names():
        scores = [result.score(name, one.name) for one in result.sets]
        if len(scores) > 1:
            scores.append(result.average(name))
        rows.append([name, *(_cell(score, known) for score in scores)])
    if len(result.sets) > 1:
        columns.append("average")
    printed = printed_rows(result) if paper else []
    title = "mean gap in %, ± 95 % interval" if known else "mean cost (no reference costs known)"
    faint = frozenset(range(len(rows), len(rows) + len(printed)))
    return Table(title, columns, rows + printed, faint)


def budget_table(result: Evaluation) -> Table:
    """Over all sets: both kinds of mean, time and rollouts."""
    columns = ["all sets", "mean gap %", "± 95 %", "gap of means %", "mean cost", "s", "rollouts"]
    rows = []
    for name in result.names():
        score = result.average(name)
        rows.append(
            [
                name,
                as_figure(score.mean_gap),
                as_figure(score.interval),
                as_figure(score.gap_of_means),
                _cost(float(score.costs.mean())),
                as_seconds(score.seconds),
                "-" if math.isnan(score.rollouts) else f"{score.rollouts:,.0f}",
            ]
        )
    return Table("seconds and rollouts are per instance", columns, rows)


def source_table(result: Evaluation) -> Table:
    """Where instances and references come from."""
    rows = []
    for one in result.sets:
        sizes = sorted({instance.num_customers for instance in one.instances})
        span = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        rows.append([one.label, str(len(one.instances)), span, one.source, one.reference_source])
    return Table("test sets", ["set", "instances", "n", "source", "reference"], rows)


def left_out_table(result: Evaluation) -> Table:
    """Instances that are in no figure, and why."""
    count = len(result.left_out)
    title = f"{count} instance{'s' if count > 1 else ''} left out"
    return Table(title, ["set", "instance", "why"], [list(row) for row in result.left_out])


def has_gaps(result: Evaluation) -> bool:
    """Whether any set has a reference cost for every instance."""
    return any(not np.isnan(score.references).any() for score in result.scores)


@cache
def paper_numbers() -> dict[str, Any]:
    """Gaps that the paper prints, by suite."""
    text = resources.files(__package__).joinpath("paper.json").read_text("utf-8")
    return json.loads(text)


def printed_rows(result: Evaluation) -> list[list[str]]:
    """The paper's rows for the sets at hand."""
    rows = []
    for row in _printed(result):
        gaps = row["gaps"]
        cells = [as_figure(gaps.get(one.name, math.nan)) for one in result.sets]
        if len(cells) > 1:
            cells.append(as_figure(gaps.get("average", math.nan)))
        copies = f" x{COPIES}" if row["augmented"] else ""
        rows.append([f"{row['method']}{copies}, {PRINTED}", *cells])
    return rows


def _printed(result: Evaluation) -> list[dict[str, Any]]:
    """The paper's tables of the suites, or of the sets, as far as they are about those at hand."""
    if not set(result.suite.split(", ")) <= {*SUITES, *ORIGINS}:
        return []
    names = [one.name for one in result.sets]
    suites = paper_numbers()["suites"].values()
    rows = [row for rows in suites if not rows[0]["gaps"].keys().isdisjoint(names) for row in rows]
    if len(names) == len(SUITES.get(result.suite, ())):
        names.append("average")
    return [row | {"gaps": {k: v for k, v in row["gaps"].items() if k in names}} for row in rows]


def as_rows(result: Evaluation, paper: bool = False) -> list[dict[str, Any]]:
    """One record per method and set, numbers unrounded."""
    records = []
    for name in result.names():
        scores = [result.score(name, one.name) for one in result.sets]
        for score in [*scores, *([result.average(name)] if len(scores) > 1 else [])]:
            records.append(
                {
                    "method": score.method,
                    "augmented": score.augmented,
                    "set": score.set,
                    "instances": len(score.costs),
                    "left_out": _left_out(result, score.set),
                    "mean_gap": _or_none(score.mean_gap),
                    "interval": _or_none(score.interval),
                    "gap_of_means": _or_none(score.gap_of_means),
                    "mean_cost": float(score.costs.mean()),
                    "seconds": score.seconds,
                    "rollouts": _or_none(score.rollouts),
                    "measured": True,
                }
            )
    if paper:
        for row in _printed(result):
            for name, gap in row["gaps"].items():
                records.append(
                    {key: None for key in records[0]}
                    | {
                        "method": row["method"],
                        "augmented": row["augmented"],
                        "set": name,
                        "mean_gap": gap,
                        "measured": False,
                    }
                )
    return records


def as_csv(result: Evaluation, paper: bool = False) -> str:
    """:func:`as_rows` as CSV."""
    records = as_rows(result, paper)
    text = io.StringIO()
    writer = csv.DictWriter(text, records[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def as_dict(result: Evaluation, paper: bool = False) -> dict[str, Any]:
    """Everything, with the cost of every instance."""
    return {
        "suite": result.suite,
        "sets": [
            {
                "name": one.name,
                "source": one.source,
                "reference": one.reference_source,
                "instances": [instance.name for instance in one.instances],
                "references": [instance.reference for instance in one.instances],
                "costs": {
                    name: result.score(name, one.name).costs.tolist() for name in result.names()
                },
            }
            for one in result.sets
        ],
        "left_out": [
            {"set": of, "instance": name, "why": why} for of, name, why in result.left_out
        ],
        "rows": as_rows(result, paper),
        **({"paper": paper_numbers()["source"]} if paper else {}),
    }


def as_markdown(result: Evaluation, paper: bool = False) -> str:
    """All tables."""
    parts = [table.markdown() for table in tables(result, paper)]
    if paper:
        parts.append(f"Rows marked '{PRINTED}': {paper_numbers()['source']}. Not measured here.")
    return "\n\n".join(parts) + "\n"


def _left_out(result: Evaluation, of: str) -> int:
    """Instances of a set, or of all, that are in no figure."""
    return sum(of in (name, "average") for name, *_ in result.left_out)


def _cell(score: Score, known: bool) -> str:
    if not known:
        return _cost(float(score.costs.mean()))
    interval = "" if math.isnan(score.interval) else f" ±{score.interval:.2f}"
    return as_figure(score.mean_gap) + interval


def _cost(value: float) -> str:
    return f"{value:.4f}" if value < 1000 else f"{value:.1f}"


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
