"""From what a user writes to a checked `Variant`.

`green_lines`, `green_lines@0.7+drift_left`, `my.module:thing` or `{"_target_": ...}` -> **find** ->
variant -> emulator.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from reprl.envs.trial import attempt
from reprl.envs.variation.base import Effect, Part, Variant, checked_severity, load_object
from reprl.errors import UserError, unknown


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


def variants(game: str = "breakout") -> list[str]:
    """The names of the variants a game can have, "original" first, then by family."""
    known = [v for v in catalogue().values() if v.games is None or game in v.games]
    return [v.name for v in sorted(known, key=lambda v: (v.name != "original", v.family, v.name))]


def find(
    spec: str | Mapping[str, Any] | Variant,
    severity: float | None = None,
    game: str = "breakout",
) -> Variant:
    """The variant a user means, checked against the game; a wrong one raises UserError."""
    if isinstance(spec, Variant):
        found = spec
    elif isinstance(spec, Mapping):
        found = _from_mapping(spec)
    elif isinstance(spec, str):
        if severity is not None and "@" in spec:
            raise UserError(f"variant '{spec}' has its severity, got severity={severity} too.")
        found = _composed([_single(word.strip(), game) for word in spec.split("+")])
    else:
        raise UserError(f"variant must be a name or a mapping with _target_, got {spec!r}.")
    if severity is not None:
        found = found.at(severity)
    if found.games is not None and game not in found.games:
        raise UserError(
            f"variant '{found.name}' cannot be played in game '{game}': "
            f"only in {', '.join(found.games)}."
        )
    return found


def _single(word: str, game: str) -> Variant:
    name, at, strength = word.partition("@")
    if ":" in name:
        found = _from_object(load_object(name), name, {})
    elif name in catalogue():
        found = catalogue()[name]
    else:
        raise unknown("variant", name, variants(game))
    if not at:
        return found
    try:
        value = float(strength)
    except ValueError:
        raise UserError(f"severity='{strength}' in variant '{word}' must be a number.") from None
    return found.at(value)


def _from_mapping(spec: Mapping[str, Any]) -> Variant:
    target = spec.get("_target_")
    if not isinstance(target, str):
        raise UserError(f"variant {dict(spec)!r} needs _target_: an effect class or a variant.")
    parameters = {str(k): v for k, v in spec.items() if k not in ("_target_", "name")}
    found = _from_object(load_object(target), target, parameters)
    return replace(found, name=str(spec["name"])) if "name" in spec else found


def _from_object(thing: Any, path: str, parameters: dict[str, Any]) -> Variant:
    """A user's object: a Variant, an Effect class, or a function that returns a Variant."""
    if isinstance(thing, Variant):
        if parameters:
            raise UserError(f"variant '{path}' is complete and takes no {sorted(parameters)}.")
        attempt(thing)
        return thing
    if isinstance(thing, type) and issubclass(thing, Effect):
        accepted = _accepted(thing)
        for key in parameters:
            if key not in accepted:
                raise unknown(f"parameter of variant '{path}'", key, accepted)
        if "severity" in accepted and "severity" not in parameters:
            parameters = {**parameters, "severity": accepted["severity"]}
        severity = parameters.get("severity")
        if severity is not None:
            severity = checked_severity(severity)
        found = Variant(
            name=path,
            family=getattr(thing, "family", "custom"),
            severity=severity,
            games=getattr(thing, "games", None),
            help=inspect.getdoc(thing) or "",
            effects=(Part(path, parameters),),
        )
        attempt(
            found
        )  # what is wrong is said here, not in a worker process in the middle of a game
        return found
    if callable(thing):
        try:
            result = thing(**parameters)
        except TypeError as error:
            raise UserError(f"variant '{path}': {error}.") from error
        if isinstance(result, Variant):
            return result
    raise UserError(f"variant '{path}' is neither a Variant, nor an Effect class, nor makes one.")


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
    usual = catalogue()[part.name].severity if part.name in catalogue() else part.severity
    return part.name if part.severity == usual else f"{part.name}@{part.severity:g}"
