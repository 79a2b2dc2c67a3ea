"""Pong's own variants: other colours for ball and paddles, and another flight of the ball.

Pong has its colours in the cartridge, not in RAM, so they are changed in the picture, where each
object has a colour that nothing else on the field has. Physics are changed through RAM: the ball
is at 49 (x) and 54 (y), flies by 56 downwards and by 58 to the left in a frame, and 21 is where the
opponent goes. The game goes on from whatever stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import cv2
import numpy as np

from reprl.envs.games.pong import BALL_X, BALL_Y, FIELD
from reprl.envs.objects import Objects
from reprl.envs.variation.base import Effect, Machine, Part, Variant, checked_severity
from reprl.envs.variation.drawing import checked_colour, matched
from reprl.validation import choice, whole

GAMES = ("pong",)
_GROUND = (144, 72, 17)
_OWN: Mapping[str, tuple[int, int, int]] = {
    "paddle": (92, 186, 92),
    "opponent": (213, 130, 74),
    "ball": (236, 236, 236),
}
_RED, _BLUE = (200, 72, 72), (66, 72, 200)  # of the console's palette, as in Breakout
_COLOURS: Mapping[str, tuple[int, int, int]] = {
    "black": (0, 0, 0),
    "white": (236, 236, 236),
    "red": _RED,
    "blue": _BLUE,
    "hidden": _GROUND,
}
_DOWN, _LEFT, _OPPONENT = 56, 58, 21
# Bytes between which the ball is moved: off the walls, and off both paddles.
_LIMITS = {BALL_X: (75, 180), BALL_Y: (54, 198)}


class PongColour(Effect):
    """Another colour for one object of Pong, wherever it shows between the walls."""

    family: ClassVar[str] = "colour"
    games: ClassVar[tuple[str, ...]] = GAMES

    def __init__(
        self, *, target: Literal["paddle", "opponent", "ball"], colour: tuple[int, int, int]
    ) -> None:
        own = np.array(_OWN[choice("target", target, tuple(_OWN))], np.uint8)
        new = np.array(checked_colour(colour), np.uint8)
        ground = np.array(_GROUND, np.uint8)
        # The picture is the maximum of two frames: where an object was in one of them only, its
        # colour is mixed with the ground's.
        self._pairs = [(own, new), (np.maximum(own, ground), np.maximum(new, ground))]

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Exchange the colours; scores and walls stay as they are."""
        field = frame[FIELD[1] : FIELD[3]]
        where = [cv2.inRange(field, old, old) > 0 for old, _ in self._pairs]
        for chosen, (_, new) in zip(where, self._pairs, strict=True):
            field[chosen] = new


def _signed(byte: int) -> int:
    return byte - 256 if byte >= 128 else byte


def _shift(machine: Machine, index: int, amount: int) -> None:
    """Move the ball by whole pixels, only within the free field."""
    low, high = _LIMITS[index]
    now = int(machine.ram[index])
    if amount and low <= now <= high and low <= now + amount <= high:
        machine.write(index, now + amount)


def _in_flight(machine: Machine) -> bool:
    ram = machine.ram
    return bool(ram[BALL_Y]) and _LIMITS[BALL_X][0] <= int(ram[BALL_X]) <= _LIMITS[BALL_X][1]


class PongPush(Effect):
    """Push the ball every few frames; at severity 0.5 by 2 px every 10 frames."""

    family: ClassVar[str] = "dynamics"
    games: ClassVar[tuple[str, ...]] = GAMES

    def __init__(
        self, *, direction: Literal["up", "down"], period: int = 10, severity: float = 0.5
    ) -> None:
        sign = -1 if choice("direction", direction, ("up", "down")) == "up" else 1
        self.amount = sign * round(4 * checked_severity(severity))
        self.period = whole("period", period, 1, 10**9)

    def before_frame(self, machine: Machine) -> None:
        """Push, if a ball is in flight and it is time."""
        if machine.frame % self.period == 0 and _in_flight(machine):
            _shift(machine, BALL_Y, self.amount)


class PongFaster(Effect):
    """Let the ball fly 1 + severity times as far, between the paddles."""

    family: ClassVar[str] = "dynamics"
    games: ClassVar[tuple[str, ...]] = GAMES

    def __init__(self, *, severity: float = 0.5) -> None:
        self.extra = checked_severity(severity)

    def before_frame(self, machine: Machine) -> None:
        """Fly a frame's way more in a share of the frames given by severity."""
        frame = machine.frame
        if int((frame + 1) * self.extra) > int(frame * self.extra) and _in_flight(machine):
            ram = machine.ram
            down, left = _signed(int(ram[_DOWN])), _signed(int(ram[_LEFT]))
            _shift(machine, BALL_X, -left)
            _shift(machine, BALL_Y, down)


class LazyOpponent(Effect):
    """The opponent rests while the ball flies away from it, in a share of the frames."""

    family: ClassVar[str] = "dynamics"
    games: ClassVar[tuple[str, ...]] = GAMES

    def __init__(self, *, severity: float = 1.0) -> None:
        self.share = checked_severity(severity)
        self.place: int | None = None  # where it rests

    def reset(self, rng: np.random.Generator) -> None:
        """It begins by moving."""
        super().reset(rng)
        self.place = None

    def before_frame(self, machine: Machine) -> None:
        """Put it back to where it was."""
        ram, frame = machine.ram, machine.frame
        away = bool(ram[BALL_Y]) and _signed(int(ram[_LEFT])) < 0
        held = int((frame + 1) * self.share) > int(frame * self.share)
        if away and held and self.place is not None:
            machine.write(_OPPONENT, self.place)
        else:
            self.place = int(ram[_OPPONENT])

    def counters(self) -> dict[str, Any]:
        """Where it rests."""
        return {"place": self.place}


def _variant(name: str, effect: str, text: str, severity: float | None, **given: Any) -> Variant:
    family = "colour" if effect == "PongColour" else "dynamics"
    parameters = given if severity is None else {**given, "severity": severity}
    part = Part(f"reprl.envs.variation.pong:{effect}", parameters)
    return Variant(name, family, severity, games=GAMES, help=text, effects=(part,))


_GRAY = 151  # of Pong's own paddle, as an agent sees it

VARIANTS = (
    *(
        _variant(
            f"{target}_{word}",
            "PongColour",
            f"The {target} {'has the colour of the ground' if word == 'hidden' else 'is ' + word}.",
            None,
            target=target,
            colour=list(colour),
        )
        for target in ("paddle", "ball")
        for word, colour in _COLOURS.items()
        if colour != _OWN[target]
    ),
    _variant(
        "paddle_matched",
        "PongColour",
        "The paddle is brown, with its own gray value: an agent that sees gray sees none.",
        None,
        target="paddle",
        colour=list(matched((190, 150, 60), _GRAY)),
    ),
    _variant(
        "opponent_hidden",
        "PongColour",
        "The opponent has the colour of the ground.",
        None,
        target="opponent",
        colour=list(_GROUND),
    ),
    _variant("drift_up", "PongPush", "The ball drifts up.", 0.5, direction="up"),
    _variant("drift_down", "PongPush", "The ball drifts down.", 0.5, direction="down"),
    _variant("faster_rally", "PongFaster", "The ball flies half as fast again.", 0.5),
    _variant("lazy_opponent", "LazyOpponent", "The opponent rests while the ball flies away.", 1.0),
)
