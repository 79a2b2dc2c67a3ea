"""Tables on disk: read line by line, merged by key under a lock, replaced whole or not at all.

Every CSV file of the project is read here, so that a damaged line costs only itself wherever it
is met. Rows that a merge does not touch keep their bytes.
"""

from __future__ import annotations

import csv
import fcntl
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprl import guard
from reprl.disk import write_atomically
from reprl.errors import UserError
from reprl.schema import FLAGS, INTEGERS, MAYBE, NUMERIC, TableSchema

if TYPE_CHECKING:  # slow to import, and `reprl runs` reads without it
    import pandas as pd


class Unreadable(UserError):
    """A file of which nothing can be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}.")
        self.reason = reason


def read_lines(path: Path, *, appended: bool = False) -> tuple[list[str], list[list[str]], int]:
    """The header, all whole rows as text, and how many lines are damaged.

    We write no line breaks inside fields, so every line is parsed alone: to a parser of the whole
    file one stray quote would swallow all lines after it. The last line of a file that is
    `appended` to may be cut short by a kill, even within a number.
    """
    text = guard.read_bytes(path).decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise Unreadable(path, "it is empty")
    header = _fields(lines[0])
    if header is None:
        raise Unreadable(path, "its first line is damaged")
    found = [_fields(line) for line in lines[1:]]
    if found and appended and not text.endswith(("\n", "\r")):
        found[-1] = None
    rows = [row for row in found if row is not None and len(row) == len(header)]
    return header, rows, len(found) - len(rows)


def _fields(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True))
    except (csv.Error, StopIteration):
        return None


def read_rows(path: Path) -> list[dict[str, str]]:
    """The whole rows of a file that is appended to; none where there is no file, or only damage."""
    try:
        header, rows, _ = read_lines(path, appended=True)
    except (FileNotFoundError, Unreadable):
        return []
    return [dict(zip(header, row, strict=True)) for row in rows]


def columns_of(path: Path) -> list[str]:
    """The header of a file, empty where there is none."""
    try:
        return read_lines(path)[0]
    except (FileNotFoundError, Unreadable):
        return []


def read_text(path: Path, *, appended: bool = False) -> tuple[pd.DataFrame, int]:
    """All whole rows as a frame of text, and how many lines are damaged."""
    import pandas as pd

    header, rows, damaged = read_lines(path, appended=appended)
    return pd.DataFrame(rows, columns=header), damaged


def read_numbers(path: Path) -> pd.DataFrame:
    """A file of metrics as numbers, NaN where there is none."""
    import pandas as pd

    frame, _ = read_text(path, appended=True)
    if frame.empty:  # a header alone: columns without a row have no kind of their own
        return frame.astype(float)
    return frame.apply(pd.to_numeric, errors="coerce")


def read_mixed(path: Path) -> pd.DataFrame:
    """A file of rows with words in it: a column that is numbers throughout becomes numbers."""
    import pandas as pd

    frame, _ = read_text(path, appended=True)
    for name in frame:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if (numbers.notna() | frame[name].isin(["", "nan"])).all():
            frame[name] = numbers
    return frame


def read(path: Path, table: TableSchema) -> tuple[pd.DataFrame, int]:
    """The rows of a measured file, typed, and how many lines of it are damaged and left out."""
    import pandas as pd

    if not path.exists():
        return pd.DataFrame(columns=list(table.columns)), 0
    frame, good, damaged = _checked(path, table)
    return _typed(frame[good], table), damaged


def merge(path: Path, rows: pd.DataFrame, table: TableSchema) -> pd.DataFrame:
    """Add rows to a file, newer measurements in place of older; returns everything in it.

    A file with damaged lines is kept beside it under another name before they are dropped.
    """
    import pandas as pd

    path.parent.mkdir(parents=True, exist_ok=True)
    guard.inspect(path.parent.parent, without=("checkpoints",))
    with locked(path):
        parts = [_as_text(rows)]
        if path.exists():
            there, good, damaged = _checked(path, table)
            if damaged:
                copy = guard.read_bytes(path).decode("utf-8", errors="replace")
                write_atomically(path.with_name(f"{path.name}.damaged"), copy)
            new = set(keys(parts[0], table))
            older = [key not in new for key in keys(there, table)]
            parts.insert(0, there[good & pd.Series(older, there.index, dtype=bool)])
        merged = pd.concat([p for p in parts if len(p)] or parts[-1:], ignore_index=True)
        if table.single:
            newest = {key: i for i, key in enumerate(keys(merged, table))}
            merged = merged.iloc[sorted(newest.values())].reset_index(drop=True)
        write_atomically(path, merged.to_csv(index=False))
    return _typed(merged.fillna(""), table)


def keys(frame: pd.DataFrame, table: TableSchema) -> list[tuple[Any, ...]]:
    """What each row of a frame, typed or text, is a measurement of."""
    names = list(table.key)
    return [key_of(row, table) for row in frame[names].itertuples(index=False)]


def key_of(values: Iterable[Any], table: TableSchema) -> tuple[Any, ...]:
    """The same key for a value, its text and numpy's form of it."""
    key: list[Any] = []
    for name, value in zip(table.key, values, strict=True):
        if name in NUMERIC:
            key.append(_exact(value))
        else:
            key.append(str(value))
    return tuple(key)


def _exact(value: Any) -> float | None:
    try:
        return int(value) if not isinstance(value, float) else _number(value)
    except (TypeError, ValueError):  # None, an empty field or a number with a point
        return _number(value)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file by these rows."""
    write_atomically(path, text_of(columns, rows, header=True))


def text_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    """Rows as the text of a CSV file; floats read back to the same bits."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, "", "ignore", lineterminator="\n")
    if header:
        writer.writeheader()
    for row in rows:
        writer.writerow({k: _format(v) for k, v in row.items()})
    return buffer.getvalue()


def _format(value: Any) -> Any:
    # repr gives the shortest text that reads back to the same bits
    return repr(value) if isinstance(value, float) and not math.isnan(value) else value


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    lines = frame.to_csv(index=False).splitlines()
    return pd.DataFrame([_fields(line) for line in lines[1:]], columns=list(frame.columns))


def _checked(path: Path, table: TableSchema) -> tuple[pd.DataFrame, pd.Series, int]:
    """A file's text, which of its rows can be used, and how many lines cannot."""
    import numpy as np
    import pandas as pd

    try:
        frame, damaged = read_text(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.") from error
    for column, value in table.absent.items():
        if column not in frame.columns:
            place = list(table.columns).index(column)
            frame.insert(min(place, len(frame.columns)), column, value)
    if "game_seed" in table.columns and "game_seed" not in frame.columns:
        from reprl.game_seeds import shared_seeds  # pandas comes with it

        # written before runs had games of their own
        frame["game_seed"] = shared_seeds(frame).astype(str)
    must = table.columns if table.single else (*table.key, *table.needed)
    missing = [c for c in must if c not in frame.columns]
    if missing:
        raise Unreadable(path, f"it has no column {missing[0]}, so reprl did not write it")
    good = pd.Series(True, index=frame.index)
    for column in (c for c in table.columns if c in frame.columns):
        if column in NUMERIC:
            finite = np.isfinite(pd.to_numeric(frame[column], errors="coerce").astype(float))
            good &= finite | (frame[column] == "") if column in MAYBE else finite
        elif column in FLAGS:
            good &= frame[column].isin(["True", "False"])
        else:
            good &= frame[column] != ""
    return frame, good, damaged + int((~good).sum())


def _typed(frame: pd.DataFrame, table: TableSchema) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    typed = frame[[c for c in table.columns if c in frame.columns]].reset_index(drop=True)
    for column in typed.columns:
        if column in NUMERIC:
            kind = np.int64 if column in INTEGERS else np.float64
            typed[column] = pd.to_numeric(typed[column], errors="coerce").astype(kind)
        elif column in FLAGS:
            typed[column] = typed[column] == "True"
    return typed


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two processes that add to one file at the same time do so one after the other."""
    with guard.lock_file(path.with_name(f".{path.name}.lock")) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
