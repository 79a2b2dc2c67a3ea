"""The bytes of a saved vector environment: every game's state behind a checksum."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from reprl.errors import UserError

MAGIC = b"reprl env snapshot 1\n"
State = tuple[dict[str, Any], bytes]  # plain data and bytes of one environment


def pack(parts: list[State], header: dict[str, Any]) -> bytes:
    """One environment after the other, with a header of plain data."""
    sizes = [len(blob) for _, blob in parts]
    text = json.dumps({**header, "envs": [meta for meta, _ in parts], "sizes": sizes}).encode()
    body = len(text).to_bytes(8, "little") + text + b"".join(blob for _, blob in parts)
    return MAGIC + hashlib.sha256(body).digest() + body


def unpack(snapshot: bytes) -> tuple[list[State], dict[str, Any]]:
    """What `pack` was given; refuses what is damaged or something else."""
    start = len(MAGIC) + hashlib.sha256().digest_size
    body = snapshot[start:]
    if not snapshot.startswith(MAGIC):
        raise UserError("this is not an environment snapshot of reprl.")
    if hashlib.sha256(body).digest() != snapshot[len(MAGIC) : start]:
        raise UserError("the environment snapshot is damaged: its checksum differs.")
    end = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:end])
    parts = []
    for meta, size in zip(header["envs"], header["sizes"], strict=True):
        parts.append((meta, body[end : end + size]))
        end += size
    return parts, header
