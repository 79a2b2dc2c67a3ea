"""Reads measured CSV files line by line, so that a damaged line costs only itself."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

from reprl import guard


def read_rows(path: Path) -> tuple[pd.DataFrame, int]:
    """All whole rows of a file as text, and how many lines are damaged.

    We write no line breaks inside fields, so every line is parsed alone: to a parser of the whole
    file one stray quote would swallow all lines after it.
    """
    text = guard.read_bytes(path).decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("it is empty")
    header = _fields(lines[0])
    if header is None:
        raise ValueError("its first line is damaged")
    rows = [_fields(line) for line in lines[1:]]
    whole = [row for row in rows if row is not None and len(row) == len(header)]
    return pd.DataFrame(whole, columns=header), len(rows) - len(whole)


def _fields(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True))
    except (csv.Error, StopIteration):
        return None
