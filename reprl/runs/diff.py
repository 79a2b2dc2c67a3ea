"""Two runs side by side: which one came before, and in what they differ.

`reprl train` says at its launch what has changed since the last run, `reprl diff` of any two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprl.config.schema import counted
from reprl.naming import class_name
from reprl.runs.folder import RunFolder, runs_in

ABSENT = object()  # a key that only one of two runs has


def previous(folder: RunFolder) -> RunFolder | None:
    """The latest other run of the same experiment in the same place."""
    ours = folder.record()
    found = []
    for other in runs_in(folder.path.parent):
        if other.path != folder.path:
            record = other.record()
            if record.get("experiment") == ours.get("experiment"):
                found.append((str(record.get("started")), other))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def differences(a: RunFolder, b: RunFolder) -> list[tuple[str, str, str]]:
    """The keys that count in which two runs differ: (key, a's value, b's value), as text."""
    ours, theirs = (counted(f.settings()) for f in (a, b))
    return list(_differing(ours, theirs, ""))


def _differing(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str, str]]:
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        old, new = ours.get(key, ABSENT), theirs.get(key, ABSENT)
        if old == new:
            continue
        if _same_kind(old, new):
            yield from _differing(old, new, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", compact(old), compact(new)


def _same_kind(old: Any, new: Any) -> bool:
    """Whether two values are sections, parts of one class or schedules of one kind."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping) and old and new):
        return False
    return all(old.get(name) == new.get(name) for name in ("_target_", "kind"))


def compact(value: Any) -> str:
    """A value in few words: Cutout(size=12), linear(start=0.001, end=0), none for an empty part."""
    if value is ABSENT:
        return "-"
    if value is None or value == {}:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(compact, value)) or "none"
    if not isinstance(value, Mapping):
        return str(value)
    name = str(value.get("_target_") or value.get("kind") or "")
    inside = {k: v for k, v in value.items() if k not in ("_target_", "kind")}
    # brackets tell a list of values from the next setting
    words = [
        f"{k}=[{compact(v)}]" if isinstance(v, list) and v else f"{k}={compact(v)}"
        for k, v in inside.items()
    ]
    return f"{class_name(name) if name else ''}({', '.join(words)})"
