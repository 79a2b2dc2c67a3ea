"""Claims: which comparisons a study is about, written down before its runs start.

`claims.yaml` lies in the folder the runs are made in. Every run that starts there records the
file's hash in run.json, and the report judges the claims, and says if they were edited since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reprl import guard
from reprl.errors import UserError, not_yaml, unknown
from reprl.settings import EPISODES
from reprl.validation import number as as_number

FILE = "claims.yaml"
TOP = ("claims", "episodes")
KEYS = ("method", "baseline", "variants", "margin")
GAMES = 100  # a variant


@dataclass(frozen=True)
class Claim:
    """`method` scores more than `margin` points above `baseline` on the mean of the variants."""

    method: str
    baseline: str
    variants: tuple[str, ...] = ()  # none: every variant that no run was trained on
    margin: float = 0.0


@dataclass(frozen=True)
class Claims:
    """A claims file as it is now."""

    path: Path
    digest: str
    claims: tuple[Claim, ...]
    episodes: int = GAMES  # a variant, where a sweep is evaluated to decide them


def read_claims(path: Path) -> Claims:
    """The claims of a file, or the sentence that says what is wrong with it."""
    try:
        guard.inspect(path.parent, only=(FILE,))
        data = guard.read_bytes(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        values = guard.load_yaml(data.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        words = not_yaml(error) if isinstance(error, yaml.YAMLError) else "is not text."
        raise UserError(f"{path} {words}") from error
    top = values if isinstance(values, Mapping) else {"claims": values}
    for key in top:
        if key not in TOP:
            raise UserError(f"{path}: {unknown('key', str(key), TOP)}")
    entries = top.get("claims")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path} must hold a list of claims, each with method and baseline.")
    claims = tuple(_claim(path, number, entry) for number, entry in enumerate(entries, 1))
    episodes = EPISODES.checked(f"{path}: episodes", top.get("episodes", GAMES))
    return Claims(path, hashlib.sha256(data).hexdigest(), claims, episodes)


def _claim(path: Path, number: int, entry: Any) -> Claim:
    where = f"{path}, claim {number}"
    if not isinstance(entry, Mapping):
        raise UserError(f"{where}: {entry!r} must have a method and a baseline.")
    for key in entry:
        if key not in KEYS:
            raise UserError(f"{where}: {unknown('key', str(key), KEYS)}")
    for key in ("method", "baseline"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise UserError(f"{where}: {key}={entry.get(key)!r} must be the name of a method.")
    if entry["method"] == entry["baseline"]:
        raise UserError(f"{where}: method and baseline are both '{entry['method']}'.")
    variants = entry.get("variants") or []
    variants = [variants] if isinstance(variants, str) else variants
    if not isinstance(variants, list) or not all(isinstance(v, str) for v in variants):
        raise UserError(f"{where}: variants={variants!r} must be a list of names.")
    margin = as_number(f"{where}: margin", entry.get("margin", 0))  # points
    return Claim(entry["method"], entry["baseline"], tuple(variants), margin)


def record_of(folder: Path) -> dict[str, Any]:
    """What a run that starts in a folder records of the claims there; nothing without a file."""
    path = folder / FILE
    if not path.is_file():
        return {}
    return {"claims": {"file": FILE, "sha256": read_claims(path).digest}}
