"""What a variant is: declared data that builds, per environment, the effects changing the game.

`find` turns what a user writes (`green_lines`, `green_lines@0.7+drift_left`, `my.module:thing`,
`{"_target_": ...}`) into a `Variant`; the emulator builds its effects and calls their hooks.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np

from reprl.blame import described
from reprl.envs.objects import Objects
from reprl.errors import UserError, unknown


class Machine(Protocol):
    """The running console, as an effect may see and touch it between two frames."""

    @property
    def ram(self) -> np.ndarray:
        """The 128 bytes of RAM, uint8, as they are now."""

    @property
    def frame(self) -> int:
        """Emulator frames since the game began."""

    def write(self, index: int, value: int) -> None:
        """Set one byte of RAM."""


class Effect:
    """One change of one environment's game; every hook is optional.

    An effect is a function of its parameters, the generator of the current game and the machine:
    two environments with the same seed must show the same.
    """

    needs_objects: ClassVar[bool] = False  # draw() is given the objects only where this is set
    rng: np.random.Generator | None = None

    def reset(self, rng: np.random.Generator) -> None:
        """Begin a new game; `rng` is this effect's own stream for that game."""
        self.rng = rng

    def before_frame(self, machine: Machine) -> None:
        """Act on the console before each emulator frame."""

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Change the max-pooled picture in place, once an observation.

        It is uint8 (210, 160, 3) in Breakout; other games have up to 250 rows.
        """

    def mask(self, out: np.ndarray) -> None:
        """Set True in bool (210, 160) where the last draw() put a distractor."""

    def counters(self) -> dict[str, Any]:
        """What changes within a game besides the generator, as plain JSON data."""
        return {}

    def load_counters(self, counters: dict[str, Any]) -> None:
        """Take back what counters() gave."""
        for name, value in counters.items():
            setattr(self, name, value)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on exactly, as plain JSON data."""
        rng = None if self.rng is None else self.rng.bit_generator.state
        return {"rng": rng, "counters": self.counters()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what state() gave."""
        self.rng = None
        if state["rng"] is not None:
            self.rng = np.random.default_rng()
            self.rng.bit_generator.state = state["rng"]
        self.load_counters(state["counters"])


@dataclass(frozen=True)
class Part:
    """One effect of a variant as plain data: where its class is and what it is called with."""

    target: str  # "module:Class"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Effect:
        """A fresh effect."""
        try:
            effect = load_object(self.target)(**self.parameters)
        except TypeError as error:
            raise UserError(f"variant effect '{self.target}': {error}.") from error
        if not isinstance(effect, Effect):
            raise UserError(f"variant effect '{self.target}' is a {type(effect)}, not an Effect.")
        return effect


@dataclass(frozen=True)
class Variant:
    """A declared change of a game; `severity` is None where more or less has no meaning."""

    name: str
    family: str
    severity: float | None = None
    games: tuple[str, ...] | None = None  # None: any ALE game
    help: str = ""
    effects: tuple[Part, ...] = ()

    def build(self) -> list[Effect]:
        """Fresh effects, in the order in which they act."""
        return [part.build() for part in self.effects]

    def at(self, severity: float) -> Variant:
        """The same variant, weaker or stronger."""
        value = checked_severity(severity)
        if not any("severity" in part.parameters for part in self.effects):
            raise UserError(
                f"variant '{self.name}' has no severity: severity={severity} is too much."
            )
        parts = tuple(
            replace(part, parameters={**part.parameters, "severity": value})
            if "severity" in part.parameters
            else part
            for part in self.effects
        )
        return replace(self, severity=value, effects=parts)


def checked_severity(value: Any) -> float:
    """A severity as a float, or the error that says what it must be."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"severity={value!r} must be a number from 0 to 1.")
    return float(value)


def load_object(path: str) -> Any:
    """The object at "module:object" or, as Hydra writes it, "module.object"."""
    module_name, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        found: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as error:
        raise UserError(f"variant '{path}' cannot be imported: {described(error)}") from error
    return found


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
    from reprl.envs.trial import attempt

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
