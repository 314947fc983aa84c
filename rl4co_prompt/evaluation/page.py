"""One self-contained page of an evaluation: tables and figures, light and dark."""

import html
import io
import re
import zlib

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rl4co_prompt import __version__
from rl4co_prompt.evaluation import figures
from rl4co_prompt.evaluation.evaluate import Evaluation
from rl4co_prompt.evaluation.table import Table
from rl4co_prompt.evaluation.tables import (
    budget_table,
    gap_table,
    has_gaps,
    left_out_table,
    paper_numbers,
    source_table,
)
from rl4co_prompt.evaluation.tokens import token_table
from rl4co_prompt.inference.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#010203"  # drawn with this, shown in the page's own colour

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --faint: #5d6775; --paper: #ffffff;
  --line: #d9dee5; --wash: #f4f6f9; --accent: #2a6fbb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --faint: #98a3b1; --paper: #12161c;
  --line: #2d3540; --wash: #1a2029; --accent: #7db4ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0 .75rem; } .faint { color: var(--faint); font-size: .9rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums;
  font-size: .9rem; }
th, td { padding: .4rem .6rem; line-height: 1.25; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { background: var(--wash); font-weight: 600; } tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--wash); }
tr.faint td { color: var(--faint); font-style: italic; }
.wrap td { white-space: normal; overflow-wrap: break-word; text-align: left; }
.wrap th { text-align: left; }
.wide { overflow-x: auto; } .wide svg { min-width: 46rem; }
td.best { font-weight: 700; color: var(--accent); }
small { color: var(--faint); font-weight: 400; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
  gap: 1rem; }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr));
  gap: 1rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font-family: inherit; } figcaption { color: var(--faint); font-size: .9rem; }
"""


def page(result: Evaluation, paper: bool = False, command: str = "") -> str:
    """The report as HTML; it loads nothing from elsewhere."""
    parts = [
        f"<h1>{html.escape(result.suite)}</h1>",
        f"<p>{_methods(result)}</p>",
        f"<p class=faint>rl4co_prompt {__version__}"
        + (f" &middot; <code>{html.escape(command)}</code>" if command else "")
        + "</p>",
        _section(
            "Gaps" if has_gaps(result) else "Costs",
            _table(gap_table(result, paper), best=has_gaps(result)),
            _gap_note(paper) if has_gaps(result) else "Mean costs; no reference costs are known.",
        ),
        _section("Budget", _table(budget_table(result))),
        _curves(result),
        _tokens(result),
        _selection(result),
        _maps(result),
        _section("Test sets", _table(source_table(result), wrap=True)),
        _left_out(result),
    ]
    body = "\n".join(part for part in parts if part)
    title = html.escape(f"{result.suite} - rl4co_prompt")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _methods(result: Evaluation) -> str:
    return html.escape(", ".join(method.label for method in result.methods))


def _gap_note(paper: bool) -> str:
    note = "Mean of the instances' gaps with its 95 % interval; the best measured one is bold."
    if paper:
        note += f" Rows in italics are not measured here: {paper_numbers()['source']}."
    return note


def _section(title: str, content: str, note: str = "") -> str:
    note = f"<p class=faint>{html.escape(note)}</p>" if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{note}{content}</section>"


def _table(table: Table, best: bool = False, wrap: bool = False) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    winners = _winners(table) if best else {}
    rows = []
    for i, row in enumerate(table.rows):
        cells = "".join(
            f"<td{' class=best' if winners.get(j) == i else ''}>{_cell(cell)}</td>"
            for j, cell in enumerate(row)
        )
        rows.append(f"<tr{' class=faint' if i in table.faint else ''}>{cells}</tr>")
    kind = "scroll wrap" if wrap else "scroll"
    return (
        f'<div class="{kind}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    """A figure's interval goes below it."""
    figure, sign, interval = html.escape(text).partition(" ±")
    return figure + (f"<br><small>±{interval}</small>" if sign else "")


def _winners(table: Table) -> dict[int, int]:
    """The row with the lowest figure of each column, among those measured here."""
    best: dict[int, int] = {}
    for j in range(1, len(table.columns)):
        values = {
            i: float(row[j].split(" ")[0])
            for i, row in enumerate(table.rows)
            if i not in table.faint and row[j] != "-"
        }
        if len(values) > 1:
            best[j] = min(values, key=values.__getitem__)
    return best


def _curves(result: Evaluation) -> str:
    if not result.solutions or not has_gaps(result):
        return ""
    drawn = []
    if any(len(gaps) > 1 for _, gaps in figures.budget_curves(result).values()):
        drawn.append(
            _figure(lambda ax: figures.plot_budget(ax, result), "Gap by budget, pass by pass.")
        )
    if any(method.num_prompts > 1 for method in result.methods):
        drawn.append(
            _figure(
                lambda ax: figures.plot_top_k(ax, result),
                "Gap by number of prompts, with 95 % intervals.",
            )
        )
    return _section("Curves", f"<div class=pair>{''.join(drawn)}</div>") if drawn else ""


def _tokens(result: Evaluation) -> str:
    table = token_table(result)
    return "" if table is None else _section("Tokens per layer", _table(table))


def _left_out(result: Evaluation) -> str:
    if not result.left_out:
        return ""
    table = left_out_table(result)
    note = f"{table.title}; no figure counts them."
    return _section("Left out", _table(table, wrap=True), note)


def _selection(result: Evaluation) -> str:
    prompted = {method.pool: method.label for method in result.methods if method.kind == "prompt"}
    size = (9.0, 0.9 + 0.32 * len(result.sets))
    drawn = [
        _figure(
            partial(figures.plot_selection, result=result, method=label),
            f"{label}: share of instances, in percent, that each prompt is nearest to.",
            size,
        )
        for label in prompted.values()
    ]
    return _section("Prompts chosen", f"<div class=wide>{''.join(drawn)}</div>") if drawn else ""


def _maps(result: Evaluation) -> str:
    method, best, worst = figures.extremes(result)
    parts = []
    for title, solutions in ((f"Best of {method}", best), (f"Worst of {method}", worst)):
        if solutions:
            drawn = [_figure(_bare(s), s.title(), (3.4, 3.4)) for s in solutions]
            parts.append(_section(title, f"<div class=maps>{''.join(drawn)}</div>"))
    return "".join(parts)


def _bare(solution: Solution) -> "Callable[[Axes], Any]":
    return lambda ax: solution.plot(ax).axis("off")


def _figure(
    draw: "Callable[[Axes], Any]", caption: str, size: tuple[float, float] = (5, 3.4)
) -> str:
    """An inline SVG whose ink follows the page."""
    import matplotlib

    from matplotlib.figure import Figure

    colours = {
        key: INK
        for key in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
    }
    # A fixed salt and no date: the same evaluation gives the same page.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "rl4co_prompt", "font.size": 9, **colours}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
        ax.spines[["top", "right"]].set_visible(False)
        draw(ax)
        ax.set_title("")  # the caption says it
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg") :].replace(INK, "currentColor")
    drawing = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{zlib.crc32(caption.encode())}-", drawing)
    label = html.escape(caption)
    return (
        f'<figure role="img" aria-label="{label}">{drawing}'
        f"<figcaption>{label}</figcaption></figure>"
    )
