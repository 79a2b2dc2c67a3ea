"""Measured rows on disk: what is there is reused, new rows are merged in whole or not at all."""

from __future__ import annotations

import fcntl
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reprl.errors import UserError
from reprl.evaluation.evaluate import COLUMNS
from reprl.evaluation.players import Task
from reprl.game_seeds import shared_seeds
from reprl.runs.folder import write_atomically
from reprl.tables import read_rows

# What makes two rows the same game under the same protocol; a run's folder may be renamed.
KEY = (
    *("method", "step", "variant", "severity", "episode", "eval_seed", "game_seed"),
    *("deterministic", "sticky"),
)
INTEGERS = (
    *("train_seed", "step", "episode", "eval_seed", "game_seed", "length"),
    *("step_in_game", "flip"),
)
NUMBERS = ("sticky", "episode_return")
MAYBE = ("severity", "js", "value_error", "feature_distance", "attention_shift")


def read(path: Path, columns: Sequence[str] = COLUMNS) -> tuple[pd.DataFrame, int]:
    """The rows of a file, typed, and how many lines of it are damaged and left out."""
    if not path.exists():
        return pd.DataFrame(columns=list(columns)), 0
    try:
        frame, damaged = read_rows(path)
    except (ValueError, OSError) as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]}.") from error
    if "game_seed" in columns and "game_seed" not in frame.columns:
        frame["game_seed"] = shared_seeds(frame)  # written before runs had games of their own
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise UserError(f"{path} was not written by reprl evaluate: it has no column {missing[0]}.")
    frame = frame[list(columns)]
    good = pd.Series(True, index=frame.index)
    for column in columns:
        if column == "game_seed":  # 63 bits: a column with one damaged row would become floats
            seeds = frame[column].map(lambda v: int(v) if str(v).isdecimal() else -1)
            frame[column] = seeds.astype(object)
            good &= seeds.between(0, 2**63 - 1)
        elif column in (*INTEGERS, *NUMBERS, *MAYBE):
            empty = frame[column] == ""
            frame[column] = pd.to_numeric(frame[column], errors="coerce")
            allowed = empty if column in MAYBE else pd.Series(False, index=frame.index)
            good &= np.isfinite(frame[column].astype(float)) | allowed
        elif column == "deterministic":
            good &= frame[column].isin(["True", "False"])
            frame[column] = frame[column] == "True"
        else:
            good &= frame[column] != ""
    frame = frame[good].reset_index(drop=True)
    kinds: dict[str, type] = {c: np.int64 for c in INTEGERS if c in columns}
    kinds |= {c: np.float64 for c in (*NUMBERS, *MAYBE) if c in columns}
    return frame.astype(kinds), damaged + int((~good).sum())


def add(
    path: Path, rows: pd.DataFrame, columns: Sequence[str] = COLUMNS, key: Sequence[str] = KEY
) -> pd.DataFrame:
    """Merge rows into a file, newer ones in place of older; returns everything in it.

    A file with damaged lines is kept beside it under another name before they are dropped.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        there, damaged = read(path, columns)
        if damaged:
            shutil.copyfile(path, path.with_name(f"{path.name}.damaged"))
        parts = [part for part in (there, rows[list(columns)]) if len(part)]
        merged = pd.concat(parts, ignore_index=True) if parts else there
        known = [_key(row, key) for row in merged[list(key)].itertuples(index=False)]
        newest = {k: i for i, k in enumerate(known)}
        merged = merged.iloc[sorted(newest.values())].reset_index(drop=True)
        write_atomically(path, merged.to_csv(index=False))
    return merged


def missing(
    there: pd.DataFrame,
    tasks: Iterable[Task],
    *,
    method: str,
    step: int,
    deterministic: bool,
    sticky: float,
) -> list[Task]:
    """The tasks that have no row yet under this protocol."""
    known = {_key(row, KEY) for row in there[list(KEY)].itertuples(index=False)}

    def key(task: Task) -> tuple[Any, ...]:
        game = (task.variant.name, task.variant.severity, task.episode, task.seed)
        return _key((method, step, *game, task.game_seed, deterministic, sticky), KEY)

    return [task for task in tasks if key(task) not in known]


def _key(values: Iterable[Any], names: Sequence[str]) -> tuple[Any, ...]:
    key: list[Any] = []
    for name, value in zip(names, values, strict=True):
        if name in (*INTEGERS, *NUMBERS, *MAYBE):
            # whole numbers stay whole: a float cannot hold the 63 bits of a game's seed
            known = value is not None and not math.isnan(value)
            value = (int(value) if value == int(value) else float(value)) if known else None
        elif name == "deterministic":
            value = bool(value)
        key.append(value)
    return tuple(key)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two evaluations of one folder at the same time add to the file one after the other."""
    with open(path.with_name(f".{path.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
