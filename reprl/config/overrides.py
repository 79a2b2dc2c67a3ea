"""The command line's overrides: read one by one, refused where wrong, rewritten for Hydra.

`reprl.config.compose` makes a configuration of them, `reprl.sweeps` a sweep's jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException

from reprl.errors import UserError
from reprl.schedules import KEYS, schedule
from reprl.schema import PARTS

MOST_JOBS = 10_000  # of a sweep


def expand(overrides: list[str]) -> list[list[str]]:
    """The jobs of a sweep: one list of overrides each, in Hydra's own syntax and order."""
    _require_few(overrides)
    try:
        return BasicSweeper.split_arguments(parse(overrides), None)[0]
    except HydraException as error:
        raise UserError(f"this sweep cannot be expanded: {first_line(error)}") from error


def _require_few(overrides: list[str]) -> None:
    """Refuse a sweep whose jobs could not even be listed, before they are."""
    jobs = 1
    for override in parse(overrides):
        if override.is_sweep_override():
            values = islice(override.sweep_string_iterator(), MOST_JOBS + 1)
            jobs *= sum(1 for _ in values)
        if jobs > MOST_JOBS:
            raise UserError(
                f"'{override.input_line}' makes a sweep of more than {MOST_JOBS:,} jobs: divide it."
            )


def parse(overrides: list[str]) -> list[Override]:
    """Parse overrides one by one, so that an error names the one it is in."""
    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        key, equals, value = text.partition("=")
        try:
            if not key.strip("+~ "):  # Hydra takes no key for its own defaults list
                raise HydraException
            parsed += parser.parse_overrides([text])
        except ValueError:  # a number beyond what Python reads
            raise UserError(f"'{text[:60]}...' has more digits than any number here.") from None
        except HydraException:
            how = "overrides are written key=value"
            if equals:
                how += f', special characters in inner quotes: "{key}={quoted(value)}"'
            raise UserError(f"cannot read '{text}': {how}.") from None
    return parsed


def quoted(value: str | Path) -> str:
    """A text as a value in Hydra's grammar, where a backslash escapes only before a quote."""
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), str(value))
    return f"'{text}'"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping as dotted keys; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def spelled(overrides: list[str]) -> list[str]:
    """Keys as users write them -> as the configuration holds them.

    `parent` is a folder's name and has no keys below it; `freeze` is for every encoder, also one
    whose YAML does not mention it.
    """
    meant = {"parent.load": "parent_load", "encoder.freeze": "++encoder.freeze"}
    found = []
    for text in overrides:
        key, equals, value = text.partition("=")
        found.append(f"{meant[key]}={value}" if equals and key in meant else text)
    return found


def combinations(overrides: list[str]) -> list[str]:
    """`auxiliary=[a,b]` asks for several losses at once: each goes under its own name."""
    rewritten: list[str] = []
    for text in overrides:
        several = re.fullmatch(r"(auxiliary)=\[([\w,\s-]*)\]", text)
        if several:
            group, names = several.group(1), [n.strip() for n in several.group(2).split(",")]
            if "none" in names:
                raise UserError(
                    f"'{text}': none is no {group} loss; for none of them {group}=none."
                )
            rewritten.append(f"{group}=none")
            rewritten += [f"+{group}@{group}.{name}={name}" for name in names if name]
        else:
            rewritten.append(text)
    return rewritten


def replacements(overrides: list[str]) -> list[str]:
    """A schedule or a part takes the place of what was there: merged, its keys would be left."""
    rewritten: list[str] = []
    for text, override in zip(overrides, parse(overrides), strict=True):
        key, value = override.key_or_group, override.value()
        part, dot, _ = key.partition(".")
        if value == {} and override.type == OverrideType.CHANGE:
            raise UserError(f"{text} is empty and would change nothing: give a value.")
        changes = part in PARTS and dot and override.type == OverrideType.CHANGE
        built = isinstance(value, dict) and "_target_" in value
        if changes and isinstance(value, dict) and not built and _is_schedule(value):
            schedule(value, name=key)
            built = True
        rewritten += [f"~{key}", f"+{text}"] if changes and built else [text]
    return rewritten


def _is_schedule(value: Mapping[str, Any]) -> bool:
    """Whether a mapping means a schedule, rightly spelled or not, and no setting of the user's."""
    return "start" in value or (bool(value) and set(value) <= set(KEYS))


def refuse(override: Override) -> None:
    """Say what cannot be asked of a single run."""
    key = override.key_or_group
    if key in ("sweep", "seeds", "max_seeds") or key.startswith("sweep."):
        raise UserError(f"'{override.input_line}' belongs to a sweep: add -m.")
    if re.match("hydra[./]launcher", key):
        raise UserError(f"'{override.input_line}': launchers belong to a sweep: add -m.")
    if re.match("hydra([./]|$)", key):
        raise UserError(
            f"'{override.input_line}' has no effect: a folder is named with run_dir=, and of "
            "Hydra's own settings only hydra.searchpath=[DIR] is used."
        )
    if override.is_sweep_override():
        raise UserError(
            f"'{override.input_line}' gives several values: add -m for a sweep, or write "
            f"{override.key_or_group}=[a,b] for a list."
        )


def first_line(error: Exception) -> str:
    """An error of Hydra's, without the lines that repeat it."""
    return str(error).strip().splitlines()[0].rstrip(".") + "."
