"""Arguments of the small commands: run folders by position, `key=value` for everything else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from reprl import trust
from reprl.errors import UserError, nearest
from reprl.runs.agents import folder_of
from reprl.runs.places import expanded, is_folder, no_folder
from reprl.validation import Number, choice, flag

Kind = Literal["text", "path", "int", "float", "bool", "list"]
Folders = Literal["none", "perhaps", "one", "many"]

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
ANY = Number()
INT64 = Number(-(2**63), 2**63 - 1, whole=True)  # what numpy and a CSV file can hold


@dataclass(frozen=True)
class Key:
    """One `key=value` a command understands."""

    default: Any
    help: str
    kind: Kind = "text"
    choices: Callable[[], Iterable[str]] | None = None
    allowed: Number = ANY


TRUST = Key(
    None,
    "modules of your own that a run may use (--config-dir DIR trusts those in a folder); true "
    "loads a model of Stable-Baselines3",
    "list",
)


# one command writes a folder and another a file, one takes many variants: either word is taken
ALSO = {"out": "output", "output": "out", "variant": "variants", "variants": "variant"}
ALSO |= {"env.game": "game"}  # as reprl train has it
WANDB = Key(
    "off",
    "also log to the run's wandb run: off, offline or online",
    choices=lambda: ("off", "offline", "online"),
)
GAME = Key(
    None, "the game of a model of Stable-Baselines3, which does not say it (breakout if not given)"
)
OUT = Key(None, "folder for the results, where the run's own is not to be written", "path")


def parse(
    command: str,
    arguments: list[str],
    keys: Mapping[str, Key],
    folders: Folders,
    *,
    archives: bool = False,
) -> tuple[list[Path], dict[str, Any]]:
    """Split the command line into existing folders and typed values; defaults fill the rest.

    With `archives` a .zip of Stable-Baselines3 may stand in a folder's place.
    """
    if any(argument in ("-h", "--help") for argument in arguments):
        print(usage(command, keys, folders))
        raise SystemExit(0)
    if "trust" in keys:
        arguments = _named_folders(arguments)
    paths: list[Path] = []
    values = {name: key.default for name, key in keys.items()}
    given: set[str] = set()
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if name not in keys and ALSO.get(name) in keys:
            name = ALSO[name]
        if argument.startswith("-"):
            raise UserError(
                f"reprl {command} has no option '{argument}': values are given as key=value."
            )
        if equals and (name in keys or not is_folder(Path(argument))):
            if name not in keys:
                raise UserError(f"reprl {command} has no key '{name}': {_offer(name, keys)}")
            if name in given:
                raise UserError(f"{name} is given twice on the command line.")
            given.add(name)
            values[name] = convert(name, text, keys[name])
        else:
            paths.append(_folder(command, argument, keys, folders, archives=archives))
    trust.allow(modules=values.get("trust") or ())
    if folders == "perhaps" and len(paths) > 1:
        raise UserError(f"reprl {command} takes at most one folder, got {len(paths)}.")
    if folders == "one" and len(paths) != 1:
        raise UserError(f"reprl {command} takes exactly one run folder, got {len(paths)}.")
    if folders == "many" and not paths:
        raise UserError(f"reprl {command} takes at least one run folder, got none.")
    return paths, values


def name_folders(dirs: Iterable[Path]) -> list[str]:
    """Let modules in and beside the user's folders be imported, last of all; where they may lie."""
    resolved = [d.resolve() for d in dirs]
    found = list(dict.fromkeys([*resolved, *(d.parent for d in resolved)]))
    trust.allow(folders=found)
    sys.path += [str(f) for f in found if str(f) not in sys.path]
    return trust.folders()


def _named_folders(arguments: list[str]) -> list[str]:
    """Take every --config-dir DIR out of a command line."""
    rest, dirs, left = [], [], list(arguments)
    while left:
        option, equals, value = (argument := left.pop(0)).partition("=")
        if option != "--config-dir":
            rest.append(argument)
            continue
        if not equals and not left:
            raise UserError("--config-dir needs a value.")
        value = value if equals else left.pop(0)
        if not value:
            raise UserError("--config-dir= is empty: name a folder, or leave it out.")
        if not is_folder(folder := expanded(value)):
            raise UserError(f"--config-dir: there is no folder '{value}'.")
        dirs.append(folder)
    name_folders(dirs)
    return rest


def convert(name: str, text: str, key: Key) -> Any:
    """Turn the text after the equals sign into the key's kind, within its choices and range."""
    if not text:
        raise UserError(f"{name}= is empty: give a value, or leave {name}= out.")
    if text in ("null", "none") and key.default is None:
        return None
    if key.kind == "path":
        return expanded(text)
    if key.kind == "list":
        items = [item.strip() for item in text.split(",") if item.strip()]
        if not items:
            raise UserError(f"{name}= is empty: give one value, or several with commas.")
        return [_choice(name, item, key) for item in items]
    if key.kind == "text":
        return _choice(name, text, key)
    if key.kind == "bool":
        if text.lower() not in TRUE + FALSE:
            return flag(name, text)
        return text.lower() in TRUE
    whole = key.kind == "int"
    value: Any = text
    with suppress(ValueError):
        value = int(text.replace("_", "")) if whole else float(text)
    value = replace(key.allowed, whole=whole).checked(name, value)
    return INT64.checked(name, value) if whole else value


def usage(command: str, keys: Mapping[str, Key], folders: Folders) -> str:
    """The help page of a command: what it does, how it is called, its keys."""
    place = {"none": "", "perhaps": " [DIR]", "one": " DIR", "many": " DIR..."}[folders]
    option = " [--config-dir DIR]" if "trust" in keys else ""
    lines = [f"reprl {command}{place} [key=value ...]{option}", "", help_of(command), ""]
    width = max((len(name) for name in keys), default=0)
    for name, key in keys.items():
        default = ",".join(map(str, key.default)) if isinstance(key.default, list) else key.default
        default = str(default).lower() if isinstance(default, bool) else default
        notes = [key.allowed.limits] if key.allowed.limits else []
        notes += [f"default {default}"] if default is not None else []
        lines.append(f"  {name:<{width}}  {key.help}" + (f" ({', '.join(notes)})" if notes else ""))
    return "\n".join(lines).rstrip()


def help_of(command: str) -> str:
    """The one line a command says about itself."""
    try:
        return str(importlib.import_module(f"reprl.cli.{command}").HELP)
    except ModuleNotFoundError:
        return ""


def _choice(name: str, item: str, key: Key) -> str:
    if key.choices is not None:
        choice(name, item, key.choices())
    return item


def _folder(
    command: str, argument: str, keys: Mapping[str, Key], folders: Folders, *, archives: bool
) -> Path:
    if folders == "none":
        raise UserError(f"reprl {command} takes no folder, got '{argument}': {_offer('', keys)}")
    path = folder_of(argument) or expanded(argument)
    if is_folder(path):
        return path
    try:
        is_file = path.is_file()
    except OSError as error:
        raise UserError(f"'{argument}' cannot be reached: {error.strerror}.") from None
    if is_file and archives and path.suffix == ".zip":
        return path
    if is_file:
        raise UserError(f"'{argument}' is a file: reprl {command} takes a folder.")
    raise no_folder("folder", argument, path, also=(".zip",) if archives else ())


def _offer(name: str, keys: Mapping[str, Key]) -> str:
    return f"choose from {', '.join(keys) or 'nothing'}.{nearest(name, keys)}"
