"""The loggers of a run as commands find them later: evaluate, attention and report add to them.

results -> **logbook** -> TensorBoard files of the run folder, and the wandb run that training
began. TensorBoard is written where the folder has its files; wandb only where the command's own
`wandb=` says so, because a folder that somebody sent must not make anybody's computer call home.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reprl.components import described
from reprl.disk import out_of_space
from reprl.errors import UserError
from reprl.runs.folder import RunFolder
from reprl.runs.media import LoggedTable, Medium
from reprl.runs.writers import TensorBoardSink, WandbSink, require_login

WANDB_CHOICES = ("off", "offline", "online")
WORD = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def check_wandb(mode: str) -> None:
    """Refuse wandb=online without a login before anything is measured."""
    if mode == "online":
        require_login()


def identity_of(record: Mapping[str, Any], name: str) -> tuple[str, str]:
    """The id and project of a run's wandb run; a run that had none gets its own id."""
    known = record.get("wandb")
    stored = known if isinstance(known, Mapping) else {}
    identity = str(stored.get("id") or record.get("id") or name)
    project = str(stored.get("project") or os.environ.get("WANDB_PROJECT", "reprl"))
    for word in (identity, project):
        if not WORD.fullmatch(word):
            raise UserError(f"run.json of {name} names no wandb run: {word[:40]!r} is no id.")
    return identity, project


@contextmanager
def harmless() -> Iterator[None]:
    """Within this a logger may fail: what was measured is on the disk already."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if out_of_space(error):
            raise
        print(f"WARNING: not logged: {described(error)}", file=sys.stderr)


def log_results(
    folder: RunFolder,
    step: int,
    numbers: Mapping[str, float],
    media: dict[str, Medium],
    *,
    wandb: str = "off",
    kind: str,
) -> None:
    """Add what a command measured to the loggers of the run that it belongs to."""
    if folder.tensorboard.is_dir() and os.access(folder.tensorboard, os.W_OK):
        board = TensorBoardSink(folder.tensorboard)
        board.write(step, numbers)
        board.show(step, media)
        board.close()
    if wandb != "off":
        identity, project = identity_of(folder.record(), folder.path.name)
        settings = {"name": folder.path.name, "job_type": kind, "project": project}
        sink = WandbSink(
            folder.path, mode=wandb, identity=identity, settings=settings, attach=False
        )
        sink.write(step, numbers)
        sink.show(step, media)
        sink.close()


def gap_table(episodes: Any) -> tuple[dict[str, float], LoggedTable]:
    """Scores, gaps and retention of one run's games: as numbers by variant and as a table."""
    from reprl.analysis.gap import generalization_gap

    gaps = generalization_gap(episodes)
    columns = [str(c) for c in gaps.columns]
    numbers = {
        f"evaluation/{what}/{row['variant']}": float(row[what])
        for _, row in gaps.iterrows()
        for what in ("score", "gap", "retention")
        if row["method"] not in ("random", "scripted") and math.isfinite(float(row[what]))
    }
    return numbers, LoggedTable(columns, gaps.astype(object).to_numpy().tolist())


def validation_table(path: Path) -> LoggedTable | None:
    """The scores of a run's last validation and their gaps to the clean game, as a table."""
    import pandas as pd

    from reprl.schema import CLEAN

    try:
        rows = pd.read_csv(path)
        last = rows[rows["step"] == rows["step"].max()]
        scores = last.groupby("variant", sort=False)["episode_return"].agg(["size", "mean"])
    except (OSError, ValueError, KeyError):
        return None
    clean = scores["mean"].get(CLEAN, float("nan"))
    table = [
        [str(v), int(row["size"]), float(row["mean"]), float(clean - row["mean"])]
        for v, row in scores.iterrows()
    ]
    return LoggedTable(["variant", "games", "score", "gap"], table)
