"""One table, four forms: HTML, Markdown, LaTeX and CSV come from the same numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from reprl.escaping import markdown, shown, spreadsheet

Kind = Literal["text", "count", "score", "share", "small", "two", "p"]
DASH = "–"
METHODS = ("method", "against", "best_method")  # columns that hold names of methods
TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX |= {sign: "\\" + sign for sign in "&%$#_{}"}
TEX |= {
    "−": "$-$",
    "×": r"$\times$",
    "–": "--",
    "\u00a0": "~",
    "·": r"$\cdot$",
    "→": r"$\to$",
    "<": "$<$",
    ">": "$>$",
}


@dataclass(frozen=True)
class Column:
    """How one column is read: its key in the frame, its heading, and the keys of its interval."""

    key: str
    label: str
    kind: Kind = "text"
    low: str | None = None
    high: str | None = None
    help: str = ""


@dataclass(frozen=True)
class Cell:
    """What a reader sees: the value, its interval below it, and the number it sorts by."""

    text: str
    interval: str
    sort: float | str

    @property
    def plain(self) -> str:
        """Value and interval on one line."""
        return f"{self.text} {self.interval}" if self.interval else self.text


@dataclass(frozen=True)
class Table:
    """A named frame with the columns to show; the frame itself is what the CSV holds."""

    name: str
    title: str
    columns: Sequence[Column]
    frame: pd.DataFrame
    note: str = ""
    chosen_by: str = ""  # the column a reader can filter by (variant)
    marked: frozenset[str] = field(default_factory=frozenset)  # methods shown muted

    def rows(self) -> list[list[Cell]]:
        """The formatted cells, row by row."""
        records = self.frame.to_dict("records")
        return [[cell(record, column) for column in self.columns] for record in records]

    def filters(self) -> list[str]:
        """The value of the filter column per row, or empty strings."""
        if not self.chosen_by:
            return [""] * len(self.frame)
        return [str(v) for v in self.frame[self.chosen_by]]

    def markdown(self) -> str:
        """A GitHub table under its heading."""
        head = "| " + " | ".join(markdown(c.label) for c in self.columns) + " |"
        rule = "|" + "|".join(" --- " if c.kind == "text" else " ---: " for c in self.columns) + "|"
        body = ["| " + " | ".join(markdown(c.plain) for c in row) + " |" for row in self.rows()]
        note = [markdown(self.note), ""] if self.note else []
        return "\n".join([f"### {self.title}", "", *note, head, rule, *body, ""])

    def latex(self) -> str:
        """A booktabs tabular under a comment that names it, to be \\input."""
        kinds = "".join("l" if c.kind == "text" else "r" for c in self.columns)
        head = " & ".join(_tex(c.label) for c in self.columns)
        body = [" & ".join(_tex(c.plain) for c in row) for row in self.rows()]
        title = " ".join(self.title.split())
        lines = [f"% {title}; needs \\usepackage{{booktabs}}", f"\\begin{{tabular}}{{{kinds}}}"]
        lines += ["\\toprule", f"{head} \\\\", "\\midrule", *(f"{b} \\\\" for b in body)]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])

    def csv(self, recorded: Mapping[str, str] | None = None) -> str:
        """The frame at full precision, methods as they were `recorded`, and no text a formula."""
        frame = self.frame
        if recorded:
            frame = frame.rename(columns=dict(recorded))
            named = {c: frame[c].replace(dict(recorded)) for c in METHODS if c in frame}
            frame = frame.assign(**named)
        return spreadsheet(frame).to_csv(index=False)


def cell(record: dict[Any, Any], column: Column) -> Cell:
    """One formatted value; a missing one is a dash, a missing interval is left away."""
    value = record.get(column.key)
    if column.kind == "text":
        missing = value is None or (isinstance(value, float) and math.isnan(value))
        text = DASH if missing else str(value)
        return Cell(text, "", text)
    number = as_number(value)
    if not math.isfinite(number):
        return Cell(DASH, "", float("-inf"))
    interval = ""
    if column.low and column.high:
        low, high = as_number(record.get(column.low)), as_number(record.get(column.high))
        if math.isfinite(low) and math.isfinite(high):
            interval = f"[{form(low, column.kind)}, {form(high, column.kind)}]"
    return Cell(form(number, column.kind), interval, number)


def as_number(value: Any) -> float:
    """A float, NaN for anything that is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def form(number: float, kind: Kind) -> str:
    """A number as people write it, with a true minus sign."""
    if kind == "count":
        text = f"{number:,.0f}"
    elif kind == "share":
        text = f"{100 * number:.0f}\u00a0%"
    elif kind == "small":
        text = f"{number:.{_digits(number)}f}"
    elif kind == "two":
        text = f"{number:.2f}"
    elif kind == "p":
        text = f"{number:.3f}" if number >= 0.001 else "< 0.001"
    else:
        text = f"{number:.1f}" if abs(number) < 1000 else f"{number:,.0f}"
    if text.startswith("-"):
        zero = not any(c in "123456789" for c in text)
        text = text[1:] if zero else "−" + text[1:]
    return text


def _digits(number: float) -> int:
    """Decimals that leave a small share three digits: the ball's 0.00129 is not 0.001."""
    size = abs(number)
    return 3 if size < 1e-5 else max(3, 2 - math.floor(math.log10(size)))


def _tex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(TEX.get(sign, sign) for sign in shown(text))
