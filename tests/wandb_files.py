"""What an offline run of wandb holds, read without wandb."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

BLOCK = 32768


def records(path: Path) -> Iterator[Any]:
    """The records of a .wandb file: LevelDB's log format, chunks in blocks of 32 kB."""
    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        room = BLOCK - position % BLOCK
        if room < 7:
            position += room
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        if kind == 0:
            position += room
            continue
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last of several
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""


def whole(path: Path) -> list[Any]:
    """The records of a file whose run has ended; wandb writes its end on its own time."""
    for _ in range(200):
        found = list(records(path))
        if any(r.HasField("exit") for r in found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{path} has no end")


def history(found: list[Any]) -> dict[str, Any]:
    """The last value of everything that was logged; what is nested comes in pieces."""
    logged: dict[str, Any] = {}
    for item in (i for r in found if r.HasField("history") for i in r.history.item):
        *outer, last = list(item.nested_key) or [item.key]
        place = logged
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = json.loads(item.value_json)
    return logged


def artifacts(found: list[Any]) -> dict[str, list[str]]:
    """The artifacts of a run with the names of their files."""
    kept = [r.artifact for r in found if r.HasField("artifact")]
    kept += [
        r.request.log_artifact.artifact
        for r in found
        if r.HasField("request") and r.request.HasField("log_artifact")
    ]
    return {a.name: [e.path for e in a.manifest.contents] for a in kept}
