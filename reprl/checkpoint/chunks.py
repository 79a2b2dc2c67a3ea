"""Data that only grows, beside the checkpoints of a run: each checkpoint writes what is new.

replay buffer -> **chunks** in `replay/` -> checkpoint, which lists the chunks it needs with their
checksums. A chunk has the checksum in its name and is never written again under it; it is on the
disk before the checkpoint that names it appears, so a kill at any moment leaves every checkpoint
whole. What no checkpoint names any more is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as packed

from reprl import guard
from reprl.checkpoint.files import Damaged
from reprl.errors import UserError

FOLDER = "replay"
LARGEST_CHUNK = 64 << 20  # bytes of rows, before they are compressed
NAME = re.compile(r"\d{12,18}-\d{12,18}-[0-9a-f]{16}\.chunk")


class Rows(Protocol):
    """Rows of data that have numbers; the oldest are given up."""

    added: int  # rows so far

    @property
    def oldest(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    def rows(self, begin: int, end: int) -> dict[str, np.ndarray]: ...

    def load_rows(self, begin: int, arrays: dict[str, np.ndarray]) -> None: ...

    def stand_at(self, added: int) -> None: ...


class Written:
    """Which chunks of some rows a folder holds already, so that none is written twice."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.chunks: list[dict[str, Any]] = []

    def append(self, folder: Path, data: Rows) -> dict[str, Any]:
        """Write the rows that the folder does not have; what a checkpoint must name."""
        place = folder / FOLDER
        known = self.chunks if self.folder == folder.resolve() else []
        known = [c for c in known if data.oldest < c["end"] <= data.added]
        known = [c for c in known if (place / c["file"]).is_file()]
        torn = any(a["end"] != b["begin"] for a, b in pairwise(known))
        if torn or (known and known[0]["begin"] > data.oldest):
            known = []  # one of them was taken away
        begin = known[-1]["end"] if known else data.oldest
        if begin < data.added:
            require_own_folder(folder)
            place.mkdir(exist_ok=True)
        step = max(1, LARGEST_CHUNK // max(1, data.row_bytes))
        for first in range(begin, data.added, step):
            end = min(first + step, data.added)
            known.append(_write(place, first, end, data.rows(first, end)))
        if begin < data.added:
            _sync(place)
        self.folder, self.chunks = folder.resolve(), known
        return {"added": data.added, "chunks": list(known)}

    def load(self, folder: Path, record: dict[str, Any], data: Rows) -> None:
        """Put back the rows that a checkpoint names, each chunk held to its checksum."""
        chunks = [_checked(chunk) for chunk in record["chunks"]]
        for chunk in chunks:
            data.load_rows(int(chunk["begin"]), read_chunk(folder / FOLDER, chunk))
        data.stand_at(int(record["added"]))
        self.folder, self.chunks = folder.resolve(), chunks


def read_chunk(place: Path, chunk: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a chunk."""
    name, size = str(chunk["file"]), int(chunk["bytes"])
    try:
        data = guard.read_bytes(place / name)
    except FileNotFoundError:
        raise Damaged(f"{FOLDER}/{name} is missing") from None
    except UserError as error:
        raise Damaged(str(error).rstrip(".")) from None
    if hashlib.sha256(data).hexdigest() != chunk["sha256"]:
        raise Damaged(f"{FOLDER}/{name} does not match its checksum")
    guard.require_size(place / name, size, guard.memory())
    try:
        return packed.load(guard.inflate(data, size, f"{FOLDER}/{name}"))
    except SafetensorError as error:
        raise Damaged(f"{FOLDER}/{name} cannot be read ({error})") from None


def _write(place: Path, begin: int, end: int, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    whole = packed.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    data = zlib.compress(whole, 1)
    digest = hashlib.sha256(data).hexdigest()
    name = f"{begin:012d}-{end:012d}-{digest[:16]}.chunk"
    draft = place / f".{name}.draft"
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # a full disk: half a chunk only takes more of it
        draft.unlink(missing_ok=True)
        raise
    os.replace(draft, place / name)
    return {"file": name, "begin": begin, "end": end, "sha256": digest, "bytes": len(whole)}


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(chunk: Any) -> dict[str, Any]:
    """A chunk's entry; a name that is none of ours would lead elsewhere."""
    if not isinstance(chunk, dict) or not NAME.fullmatch(str(chunk.get("file"))):
        raise Damaged(f"{chunk!r:.60} is no chunk")
    return chunk


def require_own_folder(folder: Path) -> None:
    """Refuse to write or delete behind a link."""
    if (folder / FOLDER).is_symlink():
        raise UserError(
            f"{folder / FOLDER} is a link, and reprl writes and deletes behind none: move the "
            "whole run folder, and link that."
        )


def named_by(path: Path) -> set[str] | None:
    """The chunks that a checkpoint's folder names; None where it cannot be read."""
    try:
        meta = json.loads(guard.read_text(path / "state.json"))["meta"]
        return {str(chunk["file"]) for chunk in meta.get("replay", {}).get("chunks", [])}
    except (OSError, UserError, ValueError, LookupError, TypeError, AttributeError):
        return None


def remove_unnamed(folder: Path, checkpoints: list[Path]) -> None:
    """Remove what none of the checkpoints names, and what a killed write left."""
    place = folder / FOLDER
    if not place.is_dir():
        return
    require_own_folder(folder)
    named = [named_by(path) for path in checkpoints]
    for file in place.iterdir():
        half = file.name.startswith(".") and file.name.endswith(".draft")
        unread = any(names is None for names in named)
        ours = NAME.fullmatch(file.name) and not unread
        if half or (ours and not any(file.name in (names or ()) for names in named)):
            file.unlink(missing_ok=True)


def verify_chunks(folder: Path, record: dict[str, Any]) -> dict[str, str]:
    """Chunk -> "ok" or what is wrong with it."""
    found = {}
    for chunk in record["chunks"]:
        name = f"{FOLDER}/{str(chunk.get('file')) if isinstance(chunk, dict) else chunk!r:.60}"
        try:
            read_chunk(folder / FOLDER, _checked(chunk))
            found[name] = "ok"
        except (Damaged, UserError) as damage:
            found[name] = str(damage)
    return found
