"""Where a fault of our own ends: one sentence, the traceback in a file, and what to do next.

Wrong input is a `UserError`, and never comes here; a run that diverges, is killed or finds the disk
full has its own words in `reprl.runs.train`.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from reprl import __version__
from reprl.disk import write_atomically
from reprl.errors import UserError
from reprl.escaping import shown

FILE = "crash.txt"


def sentence(error: BaseException, folders: Iterable[Path] = ()) -> str:
    """What happened and where, with the traceback in the first of the folders that takes it."""
    first = shown(str(error).strip().splitlines()[0] if str(error).strip() else "no message")
    place = write(error, folders)
    kept = f"is in {shown(place)}" if place else "could not be written"
    what = f"{type(error).__name__}: {first[:300].rstrip('.')} ({_line(error)})"
    return (
        f"{what}: the traceback {kept}; if no code of yours is in it, the fault is ours, please "
        "report it with that file."
    )


def write(error: BaseException, folders: Iterable[Path]) -> Path | None:
    """Keep a traceback in a folder, in that of temporary files for want of one; where it is."""
    lines = traceback.format_exception(error)
    about = f"reprl {__version__}, Python {platform.python_version()}, {time.strftime('%F %T')}"
    text = "".join([f"{about}\n{' '.join(sys.argv)}\n\n", *lines])
    for folder in folders:
        with suppress(OSError, UserError):
            write_atomically(folder / FILE, text)
            return folder / FILE
    with (
        suppress(OSError),
        tempfile.NamedTemporaryFile(
            "w", prefix="reprl-crash-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file,
    ):
        file.write(text)
        return Path(file.name)
    return None


def _line(error: BaseException) -> str:
    """The innermost line that an exception passed."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "nowhere"
    return f"{shown(Path(frames[-1].filename).name)}:{frames[-1].lineno}"
