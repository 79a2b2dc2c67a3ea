"""What a run takes over from its parent: every setting that the user does not say again.

Overrides with `parent=DIR` -> the parent's config.yaml -> **inherited** values, under those of the
command line, of an experiment and of a primary configuration of the user's own. A folder cannot
bring code in that way: whatever class it names passes `reprl.trust`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from reprl import guard, trust
from reprl.checkpoint.files import candidates
from reprl.config.compose import OURS, groups, options, primary, search_dirs
from reprl.config.overrides import flatten, parse, spelled
from reprl.envs.games import game as game_of
from reprl.errors import UserError
from reprl.schema import CHOSEN

# of the parent's configuration, by what is loaded: dotted keys, or whole sections
SEEN = ("encoder", "attention", "env.stack", "env.gap", "env.size", "env.background")
TAKEN = {
    "encoder": SEEN,
    "policy": (*SEEN, "env.game"),
    "all": (
        *(*CHOSEN, "env", "total_steps", "seed", "mode", "threads", "ranks"),
        *("checkpoint", "eval", "log"),
    ),
}
# they learned from labels or frames: what begins with them learns as the user says
TEACHERS = ("Imitation", "Distillation", "Pretraining")


@dataclass(frozen=True)
class Parent:
    """The run that another begins with: its folder, what is loaded of it, its settings."""

    folder: Path
    load: str
    settings: dict[str, Any]


def parent_named(overrides: list[str]) -> Parent | None:
    """The parent that overrides name, None without one and for a model of SB3.

    A checkpoint that a script saved says only its parts and what it saw.
    """
    given = {o.key_or_group: o for o in parse(spelled(overrides))}
    named = given.get("parent")
    value = None if named is None or named.is_sweep_override() else named.value()
    if not isinstance(value, str):
        return None
    from reprl.config.schema import check  # which asks here
    from reprl.runs.folder import RunFolder
    from reprl.runs.places import parent_of

    path, step = parent_of(value)
    if path.is_file():
        return None
    load = str(given["parent_load"].value()) if "parent_load" in given else "all"
    folder = RunFolder(path)
    if not folder.config_file.is_file():
        return Parent(path, load, _of_checkpoint(path, step))
    guard.inspect(path)
    values = folder.settings()
    try:
        with trust.reading(path):
            found = check({**values, "run_dir": None, "device": "cpu"}).plain()
    except UserError as error:
        raise UserError(f"{folder.config_file}: {error}") from error
    return Parent(path, load, found)


def _of_checkpoint(path: Path, step: int | None) -> dict[str, Any]:
    """The parts of a model that a script saved, and what it saw; nothing of how it was trained."""
    try:
        record = json.loads(guard.read_text(candidates(path, step)[0] / "state.json"))
        parts, seen = record["meta"]["extras"], record["meta"].get("observed")
        if seen is None:
            stack, _, size = record["meta"]["observation_space"]["shape"]
            seen = {"stack": stack, "size": size}
        found: dict[str, Any] = {"env": {str(key): value for key, value in seen.items()}}
        if parts["encoder"] is not None:  # without one it has SB3's, as nature has
            encoder = dict(parts["encoder"])
            found |= {"attention": encoder.pop("attention", None) or {}, "encoder": encoder}
        for part in ("auxiliary", "augmentation"):
            found[part] = parts.get(part) or {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # reading the checkpoint says what is wrong with it
    return found


def with_parents_choices(
    overrides: list[str], config_dirs: Iterable[Path], parent: Parent
) -> list[str]:
    """The overrides, after the parent's choice in every group of which nothing is said."""
    settings = parent.settings
    said, dirs = said_keys(overrides, config_dirs), search_dirs(overrides, config_dirs)
    chosen = settings.get("choices") or {}
    found = []
    for part in _parts_taken(parent):
        names = str(chosen.get(part)).split("+")
        if part not in said and all(name in options(part, dirs) for name in names):
            several = part == "auxiliary" and len(names) > 1
            found.append(f"{part}=[{','.join(names)}]" if several else f"{part}={names[0]}")
    return [*found, *overrides]


def inherited(
    values: Mapping[str, Any],
    overrides: list[str],
    config_dirs: Iterable[Path],
    parent: Parent,
) -> dict[str, Any]:
    """Composed values, with the parent's wherever the user has said nothing."""
    settings = parent.settings
    said = said_keys(overrides, config_dirs)
    keys = said - {*groups()}
    result = copy.deepcopy(dict(values))
    parts = _parts_taken(parent)
    for key in TAKEN.get(parent.load, ()):
        section, _, name = key.partition(".")
        if section in CHOSEN:
            if section in parts and section not in said:
                ours = {k: v for k, v in flatten(result).items() if k in said}
                with trust.reading(parent.folder):
                    for target in _targets(settings[section]):
                        trust.require(re.split(r":|\.(?=[^.]*$)", target)[0], target)
                result[section] = copy.deepcopy(settings[section])
                for inner, value in ours.items():
                    if inner.startswith(f"{section}."):
                        _put(result, inner, value)
            continue
        for inner, value in flatten(settings).items():
            whole = not name and (inner == key or inner.startswith(f"{key}."))
            if (whole or inner == key) and not _is_said(inner, keys):
                if inner == "env.game":
                    with trust.reading(parent.folder):
                        game_of(str(value))
                _put(result, inner, copy.deepcopy(value))
    return result


def said_keys(overrides: list[str], config_dirs: Iterable[Path]) -> set[str]:
    """Groups and dotted keys that the command line, an experiment or an own configuration sets."""
    dirs = search_dirs(overrides, config_dirs)
    found: set[str] = set()
    for override in parse(spelled(overrides)):
        key, value = override.key_or_group, override.value()
        found |= {key} if not isinstance(value, Mapping) else {key, *flatten({key: value})}
        if key == "experiment" and isinstance(value, str):
            found |= _said_in(f"experiment/{value}", dirs)
    name, home = primary(overrides, dirs)
    if home is not None and name != OURS:
        found |= _said_in(name, dirs)
    return found


def _said_in(name: str, dirs: list[Path], depth: int = 0) -> set[str]:
    """What a YAML file sets: its keys, and the groups in its defaults; files that it names too."""
    for root in [*dirs, resources.files("reprl.conf")]:
        file = root / f"{name}.yaml"
        if not file.is_file() or depth > 20 or name == OURS:
            continue
        try:
            body = yaml.safe_load(file.read_bytes()) or {}
        except (yaml.YAMLError, ValueError):
            return set()  # composing it says what is wrong
        body = body if isinstance(body, dict) else {}
        defaults = body.pop("defaults", [])
        found = {key for key in flatten(body) if not key.startswith("hydra")}
        folder = f"{name.rpartition('/')[0]}/" if "/" in name else ""
        for entry in defaults if isinstance(defaults, list) else []:
            if isinstance(entry, dict):
                words = [str(key).removeprefix("override ").lstrip("/") for key in entry]
                found |= {word.partition("@")[0] for word in words}
            elif isinstance(entry, str) and entry != "_self_":
                where = entry.lstrip("/") if entry.startswith("/") else f"{folder}{entry}"
                found |= _said_in(where, dirs, depth + 1)
        return found
    return set()


def _parts_taken(parent: Parent) -> list[str]:
    """The parts of a parent that are taken over; a teacher's way to learn is not."""
    settings, wanted = parent.settings, TAKEN.get(parent.load, ())
    taken = [part for part in CHOSEN if part in wanted and part in settings]
    target = str((settings.get("algo") or {}).get("_target_"))
    if target.rpartition(".")[2] in TEACHERS and target.startswith("reprl."):
        taken = [part for part in taken if part != "algo"]
    return taken


def _is_said(key: str, said: set[str]) -> bool:
    words = key.split(".")
    return any(".".join(words[:n]) in said for n in range(1, len(words) + 1))


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    *way, last = key.split(".")
    for word in way:
        inner = values.get(word)
        values[word] = dict(inner) if isinstance(inner, Mapping) else {}
        values = values[word]
    values[last] = value


def _targets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if value.get("_target_"):
            yield str(value["_target_"])
        for inner in value.values():
            yield from _targets(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _targets(inner)
