"""Scores, tables, the page and the comparison, on a tiny prompted policy."""

import csv
import io
import json
import math
import re
import shutil
import subprocess

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from rl4co_prompt import PromptedPolicy, PromptPool, Solver, Task
from rl4co_prompt.evaluation import tables
from rl4co_prompt.evaluation.compare import compare, compare_rows, compare_table
from rl4co_prompt.evaluation.evaluate import Score, SolverOptions, add_references, evaluate
from rl4co_prompt.evaluation.figures import extremes, selection
from rl4co_prompt.evaluation.methods import parse_methods
from rl4co_prompt.evaluation.page import page
from rl4co_prompt.evaluation.suites import generated_set


def known_set(name, size, count=5, factor=0.9):
    one = generated_set(name, Task(size), count, seed=size)
    return replace(
        one,
        instances=tuple(
            replace(i, reference=factor * size, source="a rule") for i in one.instances
        ),
    )


@pytest.fixture
def sets():
    return [known_set("small", 8), known_set("large", 12, count=3)]


@pytest.fixture
def pools(backbone, policy, keys, tmp_path):
    short = PromptedPolicy(
        backbone, PromptPool.for_backbone(backbone, 4, num_tokens=1).set_keys(keys)
    )
    return [policy.save(tmp_path / "two.safetensors"), short.save(tmp_path / "one.safetensors")]


@pytest.fixture
def solver_for(backbone):
    loaded = {}

    def solver_for(method):
        if method.pool not in loaded:
            loaded[method.pool] = Solver.from_pretrained(backbone, method.pool, "cpu")
        return loaded[method.pool]

    return solver_for


@pytest.fixture
def result(sets, pools, solver_for):
    methods = parse_methods("backbone,prompt,prompt-top3", pools)
    return evaluate("small suite", sets, methods, solver_for, augment=True)


def test_rows_are_what_the_solver_finds_with_that_budget(result, sets, pools, backbone):
    alone = Solver(backbone)
    prompted = Solver.from_pretrained(backbone, pools[0])
    expected = {
        "backbone": alone.solve(list(sets[0].instances), 1, False),
        "backbone x8": alone.solve(list(sets[0].instances), 1, True),
        "prompt (two)": prompted.solve(list(sets[0].instances), 1, False),
        "prompt-top3 (two)": prompted.solve(list(sets[0].instances), 3, False),
        "prompt-top3 (two) x8": prompted.solve(list(sets[0].instances), 3, True),
    }
    for name, solutions in expected.items():
        score = result.score(name, "small")
        assert score.costs.tolist() == pytest.approx([s.cost for s in solutions])
        assert score.rollouts == np.mean([s.rollouts for s in solutions])


def test_a_row_stands_for_each_method_without_and_with_copies(result):
    plain = ["backbone", "prompt (two)", "prompt-top3 (two)", "prompt (one)", "prompt-top3 (one)"]

    assert sorted(result.names()[:5]) == sorted(plain)
    assert sorted(result.names()[5:]) == sorted(f"{name} x8" for name in plain)


def test_copies_and_prompts_never_make_a_row_worse(result):
    for one in result.sets:
        costs = {name: result.score(name, one.name).costs for name in result.names()}
        assert (costs["prompt-top3 (two)"] <= costs["prompt (two)"]).all()
        assert all((costs[f"{n} x8"] <= costs[n]).all() for n in costs if not n.endswith("x8"))


def test_means_and_interval_are_the_textbooks():
    score = Score("m", False, "s", np.array([11.0, 24.0]), np.array([10.0, 20.0]), 0.1, 5)

    assert score.gaps == pytest.approx([10, 20])
    assert score.mean_gap == pytest.approx(15)
    assert score.gap_of_means == pytest.approx(100 * (35 / 30 - 1))
    assert score.interval == pytest.approx(12.706 * np.std([10, 20], ddof=1) / 2**0.5, rel=1e-4)
    assert math.isnan(
        replace(score, costs=score.costs[:1], references=score.references[:1]).interval
    )


def test_the_average_is_over_instances_and_its_interval_within_sets(result):
    parts = [result.score("backbone", one.name) for one in result.sets]
    average = result.average("backbone")
    gaps = np.concatenate([part.gaps for part in parts])
    error = math.sqrt(sum(len(p.gaps) * p.gaps.var(ddof=1) for p in parts)) / len(gaps)

    assert average.mean_gap == pytest.approx(gaps.mean())
    assert average.interval == pytest.approx(2.4469 * error, rel=1e-4)  # Student's t, 8 - 2


def test_equal_budget_rows_fill_up_with_samples(sets, solver_for):
    methods = parse_methods("backbone@10,backbone")
    result = evaluate("s", sets[:1], methods, solver_for, augment=True)

    assert result.score("backbone@10", "small").rollouts == 10 * 8
    assert result.score("backbone@10 x8", "small").rollouts == 10 * 8
    for copies in ("", " x8"):
        long, short = (
            result.score(f"{name}{copies}", "small").costs for name in ("backbone@10", "backbone")
        )
        assert (long <= short).all()


def test_a_budget_below_the_copies_is_told(sets, solver_for):
    with pytest.raises(ValueError, match="backbone@4 has fewer passes than the 8 copies"):
        evaluate("s", sets, parse_methods("backbone@4"), solver_for, augment=True)


def test_solvers_are_rows_and_references(solver_for, tmp_path):
    pytest.importorskip("hygese")
    bare = generated_set("bare", Task(6), 2, seed=0)
    options = SolverOptions(seconds=0.05, cache=tmp_path / "cache.sqlite")
    known = add_references([bare], "hgs", options)
    result = evaluate("s", known, parse_methods("hgs,backbone"), solver_for, options=options)

    assert known[0].reference_source == "hgs, 0.05 s"
    assert result.score("hgs", "bare").mean_gap == pytest.approx(0, abs=1e-9)
    assert result.score("backbone", "bare").mean_gap >= -1e-9
    assert math.isnan(result.score("hgs", "bare").rollouts)


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
    assert ["Prompt, as printed", "3.93", "3.23", "3.10"] in printed
    assert not any("as printed" in row[0] for row in tables.gap_table(result).rows)
    measured = {r["method"]: r["measured"] for r in tables.as_rows(result, paper=True)}
    assert measured["Prompt"] is False
    assert measured["backbone"] is True


def test_narrow_terminals_get_the_table_in_parts(result):
    table = tables.gap_table(result)
    wide, narrow = table.rich(200), table.rich(45)

    assert len(wide) == 1
    assert len(narrow) > 1
    assert all(part.columns[0].header == "method" for part in narrow)
    headers = [c.header for part in narrow for c in part.columns[1:]]
    assert headers == table.columns[1:]


def test_selection_is_the_share_of_nearest_prompts(result):
    share = selection(result, "prompt-top3 (two)")
    solutions = result.solutions["prompt-top3 (two)", "small"]
    first = solutions[0].attempts[0].prompt

    assert share.sum(1) == pytest.approx([1, 1])
    assert share[0, first] == np.mean([s.attempts[0].prompt == first for s in solutions])


def test_extremes_are_the_best_and_the_worst(result):
    name, best, worst = extremes(result, count=2)

    assert name.endswith(" x8")
    assert best[0].gap <= best[1].gap <= worst[1].gap <= worst[0].gap


class Links(HTMLParser):
    """Whatever a page would load, and the text it shows."""

    def __init__(self):
        super().__init__()
        self.loads, self.text, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        links = [values.get(k) or "" for k in ("src", "href", "xlink:href")]
        self.loads += [x for x in links if x and not x.startswith("#")]
        self.loads += [tag] if tag in ("script", "link", "iframe") else []

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_complete_and_loads_nothing(result):
    text = page(result, command="rl4co-prompt evaluate <now>")
    reader = Links()
    reader.feed(text)
    shown = " ".join(reader.text)

    assert not [x for x in reader.loads if not x.startswith("data:image/png")]
    assert len(reader.ids) == len(set(reader.ids))
    for part in ("Gaps", "Budget", "Curves", "Tokens per layer", "Prompts chosen", "Best of",
                 "Worst of", "Test sets", "a rule", "rl4co-prompt evaluate <now>"):  # fmt: skip
        assert part in shown, part
    assert f"{result.score('backbone', 'small').mean_gap:.2f}" in shown
    assert text == page(result, command="rl4co-prompt evaluate <now>")


def test_names_can_not_break_the_page(result):
    result.sets = [replace(result.sets[0], label="<script>alert(1)</script>"), result.sets[1]]

    assert "<script>" not in page(result)


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_fits_in_a_browser(result, width, tmp_path):
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if browser is None:
        pytest.skip("no Chromium at hand")
    file = tmp_path / "report.html"
    probe = (
        "<script>addEventListener('load', () => { const e = document.documentElement;"
        "document.title = [e.scrollWidth, e.clientWidth, document.querySelectorAll('svg').length,"
        "getComputedStyle(document.body).backgroundColor].join('|'); })</script>"
    )
    file.write_text(page(result).replace("</body>", probe + "</body>"))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    for dark in (False, True):
        shade = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
        dump = subprocess.run(
            [browser, *options, *shade, f"--user-data-dir={tmp_path}", "--dump-dom", file.as_uri()],
            capture_output=True, text=True, timeout=120,
        ).stdout  # fmt: skip
        title = re.search(r"<title>(.*?)</title>", dump)[1].split("|")
        assert int(title[0]) <= int(title[1]), "the page is wider than its window"
        assert int(title[2]) >= 6
        assert title[3] == ("rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")


def test_equal_time_rows_are_measured_alike(sets, solver_for):
    found = compare(sets[0], parse_methods("backbone"), solver_for, seconds=(0.05, 0.2), cores=1)
    first, second = (score for _, score in found)

    assert [limit for limit, _ in found] == [0.05, 0.2]
    assert second.rollouts > first.rollouts
    assert compare_rows(found)[1]["costs"] == second.costs.tolist()
    table = compare_table(found, sets[0], "1 core")
    assert table.columns == ["method", "0.05 s", "0.2 s"]
    assert f"{first.mean_gap:.2f}" in table.rows[0][1]


@pytest.mark.parametrize(
    "options", [{"seconds": (0,)}, {"seconds": ()}, {"seconds": (1,), "cores": 0}]
)
def test_senseless_comparisons_are_refused(sets, solver_for, options):
    with pytest.raises(ValueError, match="must be"):
        compare(sets[0], parse_methods("backbone"), solver_for, **options)
