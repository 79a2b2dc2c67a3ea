"""Which checkpoints a run folder holds: found by their step, put back after a kill, thinned out.

`reprl.checkpoint.storage` writes and reads what is inside each of them.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from reprl import guard
from reprl.errors import UserError

OURS = re.compile(r"\.\d{12,}\.(draft|old|trash)")  # names we give to what is half done
LONGEST_STEP = 18  # digits: what a step, and a 64-bit number, can have
OLD = ".old"  # ends the name of a checkpoint that is being replaced


class Damaged(Exception):
    """A file of a checkpoint is missing or not what its manifest says."""


def path_of(folder: str | Path, step: int) -> Path:
    """Where the checkpoint of a step stands."""
    return Path(folder) / "checkpoints" / f"{step:012d}"


def steps(folder: str | Path) -> list[int]:
    """The steps of a run's checkpoints, oldest first, whole or damaged."""
    found = [
        p
        for p in (Path(folder) / "checkpoints").glob("[0-9]*")
        if p.name.isdecimal() and len(p.name) <= LONGEST_STEP
    ]
    return sorted(int(p.name) for p in found if p == path_of(folder, int(p.name)) and p.is_dir())


def candidates(folder: Path, step: int | None) -> list[Path]:
    """The checkpoint that is meant, and after the newest one those before it."""
    if not folder.exists():
        raise UserError(f"there is no checkpoint '{folder}'.")
    if not folder.is_dir():
        raise UserError(f"{folder} is a file, not a run folder: reprl reads only its own format.")
    guard.inspect(folder)
    if (folder / "manifest.json").exists() and step is None:
        return [folder]
    found = steps(folder)
    if not found:
        raise UserError(f"{folder} holds no reprl checkpoint: it has no checkpoints/<step> folder.")
    if step is not None:
        if step not in found:
            raise UserError(
                f"{folder} has no checkpoint at step {step}: choose from "
                f"{', '.join(map(str, found))}."
            )
        return [path_of(folder, step)]
    return [path_of(folder, s) for s in reversed(found)]


def recover(folder: str | Path) -> None:
    """Put back a checkpoint that was about to be replaced when its process was killed."""
    place = Path(folder) / "checkpoints"
    require_own(folder)
    for old in [p for p in place.glob(f".*{OLD}") if OURS.fullmatch(p.name)]:
        final = place / old.name[1:].removesuffix(OLD)
        if not final.exists():
            os.replace(old, final)


def remove_leftovers(folder: str | Path) -> None:
    """Remove what a killed write left: only under the names we give, and behind no link."""
    require_own(folder)
    for path in (Path(folder) / "checkpoints").glob(".*"):
        if OURS.fullmatch(path.name) and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def require_own(folder: str | Path) -> None:
    """Refuse to write or delete in `checkpoints` where it is a link to somewhere else."""
    place = Path(folder) / "checkpoints"
    if place.is_symlink():
        raise UserError(
            f"{place} is a link, and reprl writes and deletes behind none: move the whole run "
            "folder, and link that."
        )


def drop_beyond(folder: str | Path, step: int) -> None:
    """Remove the checkpoints after a step, all damaged: the run will write them again."""
    require_own(folder)
    for later in steps(folder):
        if later > step:
            _remove(path_of(folder, later))


def prune(folder: str | Path, newest: int, keep: int, protect: tuple[int, ...]) -> None:
    """Remove all but the newest `keep` and the protected ones; what lies beyond does not count."""
    require_own(folder)
    for step in [s for s in steps(folder) if s <= newest][:-keep]:
        if step not in protect:
            _remove(path_of(folder, step))


def _remove(path: Path) -> None:
    # Renamed first: a kill between two deletions must not leave half a checkpoint.
    trash = path.with_name(f".{path.name}.trash")
    os.replace(path, trash)
    shutil.rmtree(trash, ignore_errors=True)
