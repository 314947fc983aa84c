import csv
import io
import json

from dataclasses import replace

import numpy as np

from rl4co_prompt import Task
from rl4co_prompt.evaluation import tables
from rl4co_prompt.evaluation.evaluate import evaluate
from rl4co_prompt.evaluation.methods import parse_methods
from rl4co_prompt.evaluation.page import page
from rl4co_prompt.evaluation.suites import generated_set


def test_tables_say_the_same_in_every_form(result):
    gap = f"{result.score('prompt (two)', 'large').mean_gap:.2f}"
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(result))))
    record = json.loads(json.dumps(tables.as_dict(result), allow_nan=False))
    row = next(r for r in rows if (r["method"], r["set"]) == ("prompt (two)", "large"))

    assert f"{float(row['mean_gap']):.2f}" == gap
    assert len(rows) == 10 * 3
    assert gap in tables.as_markdown(result)
    assert gap in tables.gap_table(result).rows[result.names().index("prompt (two)")][2]
    costs = record["sets"][1]["costs"]["prompt (two)"]
    references = record["sets"][1]["references"]
    recomputed = 100 * np.mean(np.array(costs) / references) - 100
    assert f"{recomputed:.2f}" == gap


def test_every_form_says_what_is_left_out(result):
    assert "left out" not in tables.as_markdown(result) + page(result)
    result.left_out = [("small", "small-9", "a reason"), ("gone", "gone-0", "another")]
    record, rows = tables.as_dict(result), tables.as_rows(result)

    assert record["left_out"][0] == {"set": "small", "instance": "small-9", "why": "a reason"}
    counts = {row["set"]: row["left_out"] for row in rows}
    assert counts == {"small": 1, "large": 0, "average": 2}
    assert tables.tables(result)[-1].title == "2 instances left out"
    for text in (tables.as_markdown(result), page(result)):
        for part in ("2 instances left out", "small-9", "a reason", "gone-0"):
            assert part in text


def test_without_references_tables_show_costs(solver_for):
    bare = generated_set("bare", Task(6), 2, seed=0)
    result = evaluate("s", [bare], parse_methods("backbone"), solver_for)
    table = tables.gap_table(result)

    assert table.title.startswith("mean cost")
    assert table.rows[0][1] == f"{result.score('backbone', 'bare').costs.mean():.4f}"
    assert "<h1>s</h1>" in page(result)
    assert tables.as_rows(result)[0]["mean_gap"] is None


def test_printed_numbers_are_marked_and_never_measured(result):
    result.suite = "zero-shot"
    result.sets = [
        replace(one, name=n) for one, n in zip(result.sets, ("50-cluster", "50-grid"), strict=True)
    ]
    result.scores = [
        replace(s, set={"small": "50-cluster", "large": "50-grid"}[s.set]) for s in result.scores
    ]
    table = tables.gap_table(result, paper=True)
    printed = [row for i, row in enumerate(table.rows) if i in table.faint]

    assert all("as printed" in row[0] for row in printed)
    assert ["Prompt, as printed", "3.93", "3.23", "-"] in printed  # 3.10 is over all twelve
    assert not any("as printed" in row[0] for row in tables.gap_table(result).rows)
    measured = {r["method"]: r["measured"] for r in tables.as_rows(result, paper=True)}
    assert measured["Prompt"] is False
    assert measured["backbone"] is True


def test_printed_rows_appear_for_a_single_set(sets, solver_for):
    one = replace(sets[0], name="X", label="X")
    result = evaluate("X", [one], parse_methods("backbone"), solver_for)
    table = tables.gap_table(result, paper=True)
    rows = tables.as_rows(result, paper=True)

    assert table.columns == ["method", "X"]
    assert table.rows[1] == ["POMO, as printed", "5.40"]
    assert ["Prompt top-8, as printed", "3.50"] in table.rows
    assert table.faint == set(range(1, len(table.rows)))
    assert 3.5 in [r["mean_gap"] for r in rows if (r["method"], r["set"]) == ("Prompt top-8", "X")]


def test_sets_that_the_paper_does_not_have_get_no_printed_rows(result):
    table = tables.gap_table(result, paper=True)

    assert not table.faint
    assert len(table.rows) == len(result.names())
    assert all(row["measured"] for row in tables.as_rows(result, paper=True))
