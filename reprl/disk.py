"""Writing to a disk that may be full: files are replaced whole or not at all.

Run folders, ledgers and exports write through this; checkpoints have a manifest of their own.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

FULL = "no space left on the disk"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a crash, sees the old text or the new."""
    # a name of its own: two processes may replace the same file at once
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)  # on a full disk every byte counts
        raise


def out_of_space(error: BaseException | None) -> bool:
    """Whether an error, or one it came from, says that the disk or the quota is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_full(folder: Path, room: int = 1_000_000) -> bool:
    """Whether a folder's disk has next to no bytes left."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < room
