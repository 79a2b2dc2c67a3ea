"""Writing to a disk that may be full: files are replaced whole or not at all.

Run folders, ledgers, tables, reports and pictures write through this; checkpoints have a
manifest of their own. What a killed process leaves half written lies under a name of its own,
and is removed by whoever writes the same file next.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reprl.errors import UserError

FULL = "no space left on the disk"
ABANDONED = 60.0  # seconds after which nobody can still be writing a draft


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a crash, sees the old text or the new."""
    with replacing(path) as draft, open(draft, "x", encoding="utf-8") as file:
        file.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft beside a file to write to; it takes the file's place once it is on the disk."""
    clear_drafts(path)
    # a name of its own: two processes may replace the same file at once
    draft = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.draft{path.suffix}")
    try:
        yield draft
        descriptor = os.open(draft, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)  # on a full disk every byte counts
        raise


def clear_drafts(path: Path, older_than: float = ABANDONED) -> None:
    """Remove what killed processes have left of writing a file."""
    ours = re.compile(
        rf"\.{re.escape(path.stem)}\.[0-9a-f]{{8}}\.draft{re.escape(path.suffix)}"
        rf"|\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.draft"  # up to version 0.2.0
    )
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if ours.fullmatch(name):
                remove_old(path.with_name(name), older_than)


def remove_old(draft: Path, older_than: float) -> None:
    """Remove a file that nobody has touched for so many seconds."""
    with suppress(OSError):
        if time.time() - draft.lstat().st_mtime >= older_than:
            draft.unlink()


def out_of_space(error: BaseException | None) -> bool:
    """Whether an error, or one it came from, says that the disk or the quota is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def not_written(what: object, error: OSError, then: str = "") -> UserError:
    """The sentence for a place that cannot be written; a full disk has one name everywhere."""
    reason = FULL if out_of_space(error) else error.strerror
    return UserError(f"{what} cannot be written: {reason}{then}.")


def is_full(folder: Path, room: int = 1_000_000) -> bool:
    """Whether a folder's disk has next to no bytes left."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < room
