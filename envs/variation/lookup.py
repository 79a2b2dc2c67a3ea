"""From what a user writes to a checked `Variant`.

`green_lines`, `green_lines@0.7+drift_left`, `my.module:thing` or `{"_target_": ...}` -> **find** ->
variant -> emulator. A user's own is first tried on a frame of the real game, before any worker
starts: what is wrong with it is then one sentence.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import ale_py
import numpy as np

from reprl.components import described
from reprl.envs.defaults import CLEAN, DEFAULT_GAME, GYMNASIUM, PROCGEN
from reprl.envs.games import Game, known_games
from reprl.envs.games import game as game_of
from reprl.envs.machine import AleMachine, emulator, games
from reprl.envs.procgen_names import UNSEEN, procgen_games
from reprl.envs.variation.base import Effect, Part, Variant, checked_severity, load_object
from reprl.errors import UserError, unknown
from reprl.settings import SEVERITY

_tried: set[tuple[str, str]] = set()  # games with the effects that were found for them
_READABLE = re.compile(r"[\w.=\[\] -]{1,60}")  # without what separates variants, or folders


@cache
def catalogue() -> Mapping[str, Variant]:
    """Every variant declared in a VARIANTS tuple of a module of this package, by name."""
    package = importlib.import_module("reprl.envs.variation")
    found: dict[str, Variant] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        declared = getattr(importlib.import_module(f"{package.__name__}.{module}"), "VARIANTS", ())
        for variant in declared:
            if variant.name in found:
                raise ValueError(f"two variants are called '{variant.name}'")
            found[variant.name] = variant
    return found


def variants(game: str = DEFAULT_GAME) -> list[str]:
    """The names of the variants a game can have, "original" first, then by family."""
    cartridge = game_of(game).cartridge
    if game.startswith(GYMNASIUM):
        return [CLEAN]  # effects draw on ALE's screen and write ALE's memory
    if game.startswith(PROCGEN):
        return [CLEAN, UNSEEN]
    known = [v for v in catalogue().values() if v.games is None or cartridge in v.games]
    return [v.name for v in sorted(known, key=lambda v: (v.name != CLEAN, v.family, v.name))]


def find(
    spec: str | Mapping[str, Any] | Variant,
    severity: float | None = None,
    game: str = DEFAULT_GAME,
) -> Variant:
    """The variant a user means, checked against the game; a wrong one raises UserError."""
    if isinstance(spec, Variant):
        found = spec
    elif isinstance(spec, Mapping):
        found = _from_mapping(spec, severity)
    elif isinstance(spec, str):
        if severity is not None and "@" in spec:
            raise UserError(f"variant '{spec}' has its severity, got severity={severity} too.")
        found = _composed([_single(word.strip(), severity, game) for word in spec.split("+")])
    else:
        raise UserError(f"variant must be a name or a mapping with _target_, got {spec!r}.")
    if severity is not None:
        found = found.at(severity)
    found = _playable(found, game)
    key = (game, _without_severity(found))
    if isinstance(spec, Mapping) or (isinstance(spec, Variant) and key not in _tried):
        attempt(found, game)
    _tried.add(key)
    return found


def _without_severity(variant: Variant) -> str:
    """What a variant is made of: tried once, it counts as tried at every severity."""
    made_of = []
    for part in variant.effects:
        parameters = dict(part.parameters)
        severity = parameters.pop("severity", None)
        if severity is not None:
            checked_severity(severity)
        made_of.append((part.target, parameters))
    return repr(made_of)


def _playable(variant: Variant, game: str) -> Variant:
    """The variant, if the games it names exist and this one is among them."""
    if game.startswith((GYMNASIUM, PROCGEN)) and variant.effects:
        raise UserError(
            f"variant '{variant.name}' changes ALE's games, and '{game}' is none: only "
            f"{' and '.join(variants(game))} can be played."
        )
    if variant.games is None:
        return variant
    if not isinstance(variant.games, list | tuple):
        raise UserError(
            f"variant '{variant.name}': games={variant.games!r} must be a tuple of games, "
            f"such as ('{DEFAULT_GAME}',)."
        )
    cartridge = game_of(game).cartridge
    for name in variant.games:
        if name != cartridge and name not in (*games(), *procgen_games()):
            raise unknown(f"game of variant '{variant.name}'", name, games())
    if cartridge not in variant.games:
        raise UserError(
            f"variant '{variant.name}' cannot be played in game '{game}': "
            f"only in {', '.join(variant.games)}."
        )
    if isinstance(variant.games, tuple):
        return variant
    return replace(variant, games=tuple(variant.games))


def _single(word: str, severity: float | None, game: str) -> Variant:
    """One part of a composition; a user's own is tried at the strength it will have."""
    name, at, text = word.partition("@")
    if at:
        try:
            severity = float(text)
        except ValueError:
            raise UserError(f"severity='{text}' in variant '{word}' must be a number.") from None
    if ":" in name:
        found = _from_object(load_object(name), name, {}, severity)
    elif name in catalogue():
        found = catalogue()[name]
    else:
        raise unknown("variant", name, variants(game))
    if at and severity is not None:
        SEVERITY.checked(f"variant '{word}': severity", severity)
        found = found.at(severity)
    if ":" in name:
        found = _playable(found, game)
        attempt(found, game)
    return found


def _from_mapping(spec: Mapping[str, Any], severity: float | None) -> Variant:
    target = spec.get("_target_")
    if not isinstance(target, str):
        raise UserError(f"variant {dict(spec)!r} needs _target_: an effect class or a variant.")
    parameters = {str(k): v for k, v in spec.items() if k not in ("_target_", "name")}
    found = _from_object(load_object(target), target, parameters, severity)
    return replace(found, name=str(spec["name"])) if "name" in spec else found


def _from_object(
    thing: Any, path: str, parameters: dict[str, Any], severity: float | None
) -> Variant:
    """A user's object: a Variant, an Effect class, or a function that returns a Variant.

    `severity` is for an Effect class that takes one and was given none among its parameters.
    """
    if isinstance(thing, Variant):
        if parameters:
            raise UserError(f"variant '{path}' is complete and takes no {sorted(parameters)}.")
        return thing
    if isinstance(thing, type) and issubclass(thing, Effect):
        accepted = _accepted(thing)
        for key in parameters:
            if key not in accepted:
                raise unknown(f"parameter of variant '{path}'", key, accepted)
        if "severity" in accepted and "severity" not in parameters:
            strength = accepted["severity"] if severity is None else severity
            if strength is not inspect.Parameter.empty:
                parameters = {**parameters, "severity": strength}
        strength = parameters.get("severity")
        return Variant(
            name=_titled(path, parameters, accepted),
            family=getattr(thing, "family", "custom"),
            severity=None if strength is None else checked_severity(strength),
            games=getattr(thing, "games", None),
            help=inspect.getdoc(thing) or "",
            effects=(Part(path, parameters),),
        )
    if _makes_variants(thing):
        try:
            result = thing(**parameters)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"variant '{path}' raised {described(error)}") from error
        if isinstance(result, Variant):
            return result
    raise UserError(
        f"variant '{path}' is neither a Variant, nor an Effect class, nor a function declared as "
        "'-> Variant'."
    )


def _makes_variants(thing: Any) -> bool:
    """Whether a function says that it returns a Variant: nothing else is called to find out."""
    if not inspect.isfunction(thing):
        return False
    declared = thing.__annotations__.get("return")
    named = isinstance(declared, str) and declared.strip("'\"").rpartition(".")[2] == "Variant"
    return declared is Variant or named


def _titled(path: str, parameters: dict[str, Any], accepted: dict[str, Any]) -> str:
    """A path with the parameters that are not the class's own, so that two variants differ."""
    given = {k: _text(v) for k, v in sorted(parameters.items()) if k != "severity"}
    words = " ".join(f"{k}={v}" for k, v in given.items() if v != _text(accepted[k]))
    if words and not _READABLE.fullmatch(words):
        words = hashlib.sha256(words.encode()).hexdigest()[:8]
    return f"{path}({words})" if words else path


def _text(value: Any) -> str:
    if not isinstance(value, list | tuple | dict):
        return str(value)
    return json.dumps(value, default=str, separators=(" ", "="))


def _accepted(kind: type) -> dict[str, Any]:
    """A class's parameters with their defaults, through every **options to its parents."""
    found: dict[str, Any] = {}
    for parent in kind.__mro__[:-1]:
        if "__init__" not in vars(parent):
            continue
        _, *declared = inspect.signature(vars(parent)["__init__"]).parameters.values()
        named = [p for p in declared if p.kind is not p.VAR_KEYWORD]
        found = {**{p.name: p.default for p in named}, **found}
        if len(named) == len(declared):
            break
    return found


def _composed(parts: list[Variant]) -> Variant:
    if len(parts) == 1:
        return parts[0]
    limits = [set(p.games) for p in parts if p.games is not None]
    families = dict.fromkeys(p.family for p in parts if p.effects)
    severities = {p.severity for p in parts if p.severity is not None}
    return Variant(
        name="+".join(_label(p) for p in parts),
        family="+".join(families) or parts[0].family,
        severity=severities.pop() if len(severities) == 1 else None,
        games=tuple(sorted(set.intersection(*limits))) if limits else None,
        help=" and ".join(p.help for p in parts),
        effects=tuple(effect for p in parts for effect in p.effects),
    )


def _label(part: Variant) -> str:
    """A part's name within a composition; only there the severity must be in the name."""
    usual = catalogue()[part.name].severity if part.name in catalogue() else None
    return part.name if part.severity in (None, usual) else f"{part.name}@{part.severity:g}"


# -- a user's own variant on trial -------------------------------------------------------------

NO_OBJECTS = " draw() is given objects only where the class says needs_objects = True."


def attempt(variant: Variant, game: str) -> None:
    """Build a user's variant and let each of its effects change one frame of the game."""
    if not variant.effects:
        return
    _require_plain(variant)
    effects = variant.build()
    played = game_of(game)
    ale = emulator(played.cartridge)
    ale.reset_game()
    for effect in effects:
        try:
            result = _show(effect, ale, played)
        except UserError:
            raise
        except Exception as error:
            hint = _not_here(played) if effect.needs_objects else NO_OBJECTS
            hint *= "NoneType" in str(error)
            raise UserError(f"variant '{variant.name}' raised {described(error)}{hint}") from error
        if result is not None:
            raise UserError(
                f"variant '{variant.name}': draw() must change the frame in place and return "
                f"nothing, got {type(result).__name__}."
            )


def _not_here(game: Game) -> str:
    if game.has_truth:
        return ""
    names = tuple(sorted(known_games()))
    return f" Objects are known in {', '.join(names)} only: say games = {names} in the class."


def _require_plain(variant: Variant) -> None:
    """Parameters are part of snapshots."""
    for part in variant.effects:
        for key, value in part.parameters.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                raise UserError(
                    f"variant '{variant.name}': {key} must be plain data (numbers, text, lists "
                    f"of them), got {type(value).__name__}."
                ) from None


def _show(effect: Effect, ale: ale_py.ALEInterface, game: Game) -> object:
    """One frame of a game under an effect; returns what its draw() returned."""
    machine = AleMachine(ale)
    effect.reset(np.random.default_rng(0))
    effect.before_frame(machine)
    ale.act(0)
    frame = ale.getScreenRGB()
    read = game.objects if effect.needs_objects else None
    objects = None if read is None else read(machine.ram)
    result: object = effect.draw(frame, objects)  # type: ignore[func-returns-value]
    effect.mask(np.zeros(frame.shape[:2], bool))
    if game.objects is not None:
        effect.moved(game.objects(machine.ram))
    return result
