"""From the numbers of every update to rows: averages since the last row, on disk before the next.

The open averages are plain data, so a checkpoint between two rows carries them along and a resumed
run writes the same rows as one never interrupted.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from reprl import guard
from reprl.checkpoint.files import LONGEST_STEP
from reprl.disk import replacing
from reprl.errors import UserError
from reprl.schema import CLEAN, ELAPSED, FILES, TRAINING_SCORE, VALIDATION_PREFIX, VALIDATION_SCORE
from reprl.tables import Unreadable, columns_of, read_lines, read_rows, text_of, write_rows

LAST = ("train/n_updates", "train/early_stops")  # counters: the newest value, not the average


class Sink(Protocol):
    """Somewhere a row of metrics goes."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Take one row; must not raise for reasons outside this process."""

    def close(self) -> None:
        """Write out what is open."""


class Averages:
    """Running means of everything logged since the last row."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.sums: dict[str, list[float]] = {k: list(v) for k, v in (state or {}).items()}

    def add(self, values: Mapping[str, Any]) -> None:
        """Add the numbers of one update; what is not a number is not averaged."""
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                total = self.sums.setdefault(name, [0.0, 0])
                if name in LAST:
                    total[:] = [float(value), 1]
                else:
                    total[:] = [total[0] + float(value), total[1] + 1]

    def means(self) -> dict[str, float]:
        """The averages so far, by name."""
        return {name: total / count for name, (total, count) in sorted(self.sums.items())}

    def take(self) -> dict[str, float]:
        """The averages, and begin anew."""
        means = self.means()
        self.sums = {}
        return means

    def state(self) -> dict[str, list[float]]:
        return {name: list(total) for name, total in self.sums.items()}


class CsvSink:
    """A CSV file whose first column is the step; a column that appears later widens the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.columns = columns_of(path)

    def write(self, step: int, row: Mapping[str, Any]) -> None:
        self.write_rows([{"step": step, **row}])

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows and have them on the disk on return."""
        rows = list(rows)
        new = list(dict.fromkeys(k for row in rows for k in row if k not in self.columns))
        if new:  # header and rows at once: a header alone is no table
            self.columns += new
            write_rows(self.path, self.columns, [*read_rows(self.path), *rows])
            return
        with open(self.path, "a", newline="") as file:
            file.write(text_of(self.columns, rows, header=False))
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Every row is already on the disk."""


def rewind_csv(path: Path, step: int) -> None:
    """Drop the rows beyond a step: the run will write them again."""
    if not path.exists():
        return
    rows, damaged = _whole_rows(path)
    if damaged:
        copy = guard.read_bytes(path)
        with replacing(path.with_name(f"{path.name}.damaged")) as draft:
            draft.write_bytes(copy)
        print(
            f"WARNING: {path}: {damaged} damaged lines are left out; {path.name}.damaged has the "
            "file as it was.",
            file=sys.stderr,
        )
    if not rows:
        path.unlink()
        return
    if "step" not in rows[0]:
        raise UserError(f"{path} has no column 'step'.")
    kept = [row for row in rows if int(row["step"]) <= step]
    # A column that first appeared beyond the step must appear at the same place again.
    columns = [c for c in rows[0] if any(row[c] != "" for row in kept)]
    if kept:
        write_rows(path, columns, kept)
    else:
        path.unlink()


def _whole_rows(path: Path) -> tuple[list[dict[str, str]], int]:
    """The rows of numbers in a file, and how many lines are not; one cut short at its end is none.

    A kill cuts the last line short, and the run writes that row again.
    """
    try:
        header, lines, damaged = read_lines(path, appended=True)
    except Unreadable:
        return [], int(path.stat().st_size > 0)
    cut = not guard.read_bytes(path).endswith((b"\n", b"\r"))
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    if "step" not in header:
        return rows, 0
    whole = [row for row in rows if _is_step(row["step"]) and _are_numbers(row)]
    return whole, damaged - (cut and damaged > 0) + len(rows) - len(whole)


def _is_step(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_STEP


def _are_numbers(row: Mapping[str, str]) -> bool:
    """Whether the columns that a run goes on from can be read; validation has names in others."""
    try:
        return all(
            not row[key] or math.isfinite(float(row[key])) for key in (ELAPSED,) if key in row
        )
    except ValueError:
        return False


def progress_of(folder: Path) -> tuple[int, float | None, float | None]:
    """A run's step, training score and validation gap, as far as its metrics.csv can say."""
    try:
        rows = read_rows(folder / "metrics.csv")
        step = int(float(rows[-1]["step"]))
        return step, _last(rows, TRAINING_SCORE), gap_of(rows)
    except (OSError, ValueError, LookupError):  # none yet, or damaged
        return 0, None, None


def gap_of(rows: list[dict[str, Any]]) -> float | None:
    """Clean minus the mean of the other validation variants, at the last validation."""
    games = {k: _last(rows, k) for k in rows[-1] if k.startswith(VALIDATION_PREFIX)}
    games.pop(VALIDATION_SCORE, None)
    return _gap({k.removeprefix(VALIDATION_PREFIX): v for k, v in games.items() if v is not None})


def evaluated_gap(folder: Path) -> float | None:
    """Clean minus the mean of the other variants, in the newest checkpoint's evaluated games."""
    try:
        rows = read_rows(folder / FILES["episodes"])
        newest = max((int(row["step"]) for row in rows), default=None)
        games: dict[str, list[float]] = {}
        for row in rows:
            if int(row["step"]) == newest:
                games.setdefault(row["variant"], []).append(float(row["episode_return"]))
    except (OSError, ValueError, LookupError):  # damaged
        return None
    return _gap({variant: sum(scores) / len(scores) for variant, scores in games.items()})


def _gap(scores: dict[str, float]) -> float | None:
    clean = scores.pop(CLEAN, None)
    return clean - sum(scores.values()) / len(scores) if clean is not None and scores else None


def _last(rows: list[dict[str, Any]], key: str) -> float | None:
    found = [float(r[key]) for r in rows if r.get(key)]
    return found[-1] if found and found[-1] == found[-1] else None
