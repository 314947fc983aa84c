"""Table: text in rows, for the terminal and for Markdown."""

import math

from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True)
class Table:
    """Text in rows; the first column is left-aligned.

    Args:
        faint: rows that were not measured here.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    faint: frozenset[int] = frozenset()

    def rich(self, width: int | None = None) -> list[RichTable]:
        """One table, or several below each other, with the first column each, to fit a width."""
        return [self._part(part) for part in self._parts(width)]

    def _parts(self, width: int | None) -> list[list[int]]:
        """Columns by part; a part has at least one beside the first."""
        sizes = [
            3 + max(cell_len(row[i]) for row in [self.columns, *self.rows])
            for i in range(len(self.columns))
        ]
        parts, used = [[0]], sizes[0] + 1
        for i in range(1, len(sizes)):
            if width is not None and used + sizes[i] > width and len(parts[-1]) > 1:
                parts.append([0])
                used = sizes[0] + 1
            parts[-1].append(i)
            used += sizes[i]
        return parts

    def _part(self, columns: list[int]) -> RichTable:
        table = RichTable()
        for i in columns:
            table.add_column(self.columns[i], justify="right" if i else "left", overflow="fold")
        for number, row in enumerate(self.rows):
            style = "dim italic" if number in self.faint else None
            table.add_row(*(Text(row[i]) for i in columns), style=style)
        return table

    def markdown(self) -> str:
        lines = [
            _pipes(self.columns),
            "|" + "|".join(["---"] + ["---:"] * (len(self.columns) - 1)) + "|",
            *(_pipes(row) for row in self.rows),
        ]
        return f"**{self.title}**\n\n" + "\n".join(lines)


def as_figure(value: float) -> str:
    """Two digits; a dash for what is not known."""
    return "-" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def as_seconds(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
