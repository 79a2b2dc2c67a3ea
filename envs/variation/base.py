"""What a variant is: declared data that builds, per environment, the effects changing the game.

`find` in lookup.py turns what a user writes into a `Variant`; the emulator builds its effects and
calls their hooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from reprl import trust
from reprl.components import described, imported
from reprl.envs.objects import Objects
from reprl.errors import UserError
from reprl.settings import SEVERITY

PHYSICS = ("dynamics", "mode", "levels")  # families that change the game, not its picture
_STRENGTH = re.compile(r"@[\d.e-]+(?=\+|$)")  # in the name of a composition


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

    needs_objects: bool = False  # draw() is given the objects only where this is set
    over_background: bool = False  # draw() changes whatever has the background's colour
    console: Mapping[str, int] = MappingProxyType({})  # the cartridge's "mode" and "difficulty"
    camouflages: bool = False  # gives objects the background's colour, so that it is not enough
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

    def moved(self, objects: Objects) -> Objects:
        """Where the objects are after draw(): for an effect that moves the picture itself.

        The given ones are not to be changed; see `Objects.warped`.
        """
        return objects

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
        self.rng = None if state["rng"] is None else generator(state["rng"])
        self.load_counters(state["counters"])


@dataclass(frozen=True)
class Part:
    """One effect of a variant as plain data: where its class is and what it is called with."""

    target: str  # "module:Class"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Effect:
        """A fresh effect."""
        kind = self.kind()
        try:
            return kind(**self.parameters)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"variant effect '{self.target}' raised {described(error)}") from error

    def kind(self) -> type[Effect]:
        """The class of the effect: checked to be one before anything is called."""
        found = load_object(self.target)
        if not isinstance(found, type) or not issubclass(found, Effect):
            name = getattr(found, "__qualname__", type(found).__name__)
            raise UserError(f"variant effect '{self.target}' is {name}, not an Effect class.")
        return found


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
        effects = [part.build() for part in self.effects]
        if any(effect.camouflages for effect in effects):
            for effect in effects:
                effect.needs_objects = effect.needs_objects or effect.over_background
        return effects

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Variant:
        """The variant that `asdict` made plain data of, which may come from anybody's file."""
        parts = tuple(Part(**part) for part in data["effects"])
        with trust.reading():
            for part in parts:
                part.kind()
        games = data["games"] and tuple(data["games"])
        return cls(**{**data, "effects": parts, "games": games})

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
        name = _STRENGTH.sub("", self.name)  # what its parts had before
        return replace(self, name=name, severity=value, effects=parts)


def checked_severity(value: Any) -> float:
    """A severity as a float, or the error that says what it must be."""
    return float(SEVERITY.checked("severity", value))


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A generator that goes on from a bit generator's state."""
    made = np.random.default_rng(0)
    made.bit_generator.state = state
    return made


def load_object(path: str) -> Any:
    """The object a variant or one of its effects is made of."""
    try:
        return imported(path)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"variant '{path}' cannot be imported: {described(error)}") from error
