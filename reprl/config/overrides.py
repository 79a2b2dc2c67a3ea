"""The command line's overrides: read one by one, refused where wrong, rewritten for Hydra.

`reprl.config.compose` makes a configuration of them, `reprl.sweeps` a sweep's jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.errors import HydraException

from reprl.errors import UserError
from reprl.schedules import KEYS, schedule
from reprl.schema import CHOSEN
from reprl.settings import GROUPS

MOST_JOBS = 10_000  # of a sweep


def expand(
    overrides: list[str], offered: Callable[[str], Iterable[str]] = lambda group: ()
) -> list[list[str]]:
    """The jobs of a sweep: one list of overrides each, in Hydra's own syntax and order.

    `offered` names the options of a group, from which glob(...) chooses.
    """
    choices: dict[str, list[str]] = {}
    jobs = 1
    for override in parse(overrides):
        key = override.get_key_element()
        values = list(islice(values_of(override, offered), MOST_JOBS + 1))
        jobs *= len(values)
        if jobs > MOST_JOBS:  # refused before they are listed
            raise UserError(
                f"'{override.input_line}' makes a sweep of more than {MOST_JOBS:,} jobs: divide it."
            )
        choices[key] = [f"{key}={value}" for value in values]
    return [list(job) for job in product(*choices.values())]


def values_of(override: Override, offered: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """The values that one override gives to the jobs of a sweep, one if it is no sweep."""
    if not override.is_sweep_override():
        yield override.get_value_element_as_str()
        return
    if not override.is_discrete_sweep():
        raise UserError(
            f"'{override.input_line}' names no values to go through: give them, or choose a "
            "sweeper that draws them, hydra/sweeper=..."
        )
    value = override.value()
    if isinstance(value, Glob):
        yield from value.filter(list(offered(override.key_or_group)))
        return
    yield from override.sweep_string_iterator()


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

    `parent` is a folder's name and has no keys below it; `freeze` and `init` are for every encoder,
    also one whose YAML does not mention them.
    """
    meant = {"parent.load": "parent_load"}
    meant |= {key: f"++{key}" for key in ("encoder.freeze", "encoder.init")}
    found = []
    for text in overrides:
        key, equals, value = text.partition("=")
        found.append(f"{meant[key]}={value}" if equals and key in meant else text)
    return found


# what a choice means for others, unless they are chosen too or an experiment is
IMPLIED = {
    "env=gymnasium": {"encoder": "mlp", "eval.variants": "[original]"},
    "env=procgen": {"encoder": "impala", "eval.variants": "[original,unseen]"},
}
WIDE = ("algo=sac", "algo=td3", "algo=ddpg")  # whose authors had wider layers for numbers


def implied(overrides: list[str]) -> list[str]:
    """The overrides, with what some of them imply: numbers need another encoder than pictures."""
    chosen = {text.lstrip("+").partition("=")[0] for text in overrides}
    found = []
    for choice, others in IMPLIED.items():
        if choice in overrides and "experiment" not in chosen:
            if any(algo in overrides for algo in WIDE):
                others = others | {"encoder": "mlp_256"}
            found += [f"{key}={value}" for key, value in others.items() if key not in chosen]
    return [*found, *overrides]


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
    """A schedule or a part takes the place of what was there: merged, its keys would be left.

    `encoder={_target_:...}` is a part of the user's own in place of a named one.
    """
    rewritten: list[str] = []
    for text, override in zip(overrides, parse(overrides), strict=True):
        key, value = override.key_or_group, override.value()
        part, dot, _ = key.partition(".")
        if part == "callbacks" and override.type == OverrideType.CHANGE:
            rewritten.append(f"++{text}")  # their names are the user's
            continue
        if part in CHOSEN and not dot and isinstance(value, dict) and value:
            if "_target_" not in value and not _nests_specs(value):
                raise UserError(
                    f"'{text}': a {part} in braces needs _target_, the path of its class; keys of "
                    f"a named one are set with a dot, as in {part}.{next(iter(value))}=..."
                )
            rewritten += [f"~{part}", f"+{text.lstrip('+')}"]
            continue
        if value == {} and override.type == OverrideType.CHANGE:
            raise UserError(f"{text} is empty and would change nothing: give a value.")
        changes = part in CHOSEN and dot and override.type == OverrideType.CHANGE
        if not changes or not isinstance(value, dict):
            rewritten.append(text)
            continue
        replaces = "_target_" in value or key == "attention.hard"
        if not replaces and key not in GROUPS and _is_schedule(value):  # algo.beta has own keys
            schedule(value, name=key)
            replaces = True
        # set to null first: what is null already has nothing that could be taken away
        rewritten += [f"{key}=null", text] if replaces else [text]
    return rewritten


def _nests_specs(value: Mapping[str, Any]) -> bool:
    return all(isinstance(inner, dict) and "_target_" in inner for inner in value.values())


def _is_schedule(value: Mapping[str, Any]) -> bool:
    """Whether a mapping means a schedule, rightly spelled or not, and no setting of the user's."""
    return "start" in value or (bool(value) and set(value) <= set(KEYS))


def refuse(override: Override) -> None:
    """Say what cannot be asked of a single run."""
    key = override.key_or_group
    if key in ("sweep", "seeds", "max_seeds") or key.startswith("sweep."):
        raise UserError(f"'{override.input_line}' belongs to a sweep: add -m.")
    if re.match("hydra[./](launcher|sweeper|sweep)([./]|$)", key):
        raise UserError(
            f"'{override.input_line}': launchers, sweepers and a sweep's folder belong to a sweep: "
            "add -m."
        )
    if key in ("hydra", "hydra.mode"):
        raise UserError(f"'{override.input_line}' cannot be set: a sweep is asked for with -m.")
    if override.is_sweep_override():
        raise UserError(
            f"'{override.input_line}' gives several values: add -m for a sweep, or write "
            f"{override.key_or_group}=[a,b] for a list."
        )


def first_line(error: Exception) -> str:
    """An error of Hydra's, without the lines that repeat it."""
    return str(error).strip().splitlines()[0].rstrip(".") + "."
