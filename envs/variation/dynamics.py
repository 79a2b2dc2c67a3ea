"""Changed physics: the ball is pushed or hurried through the console's RAM, never by drawing.

Breakout keeps the ball as fixed-point numbers (bytes: whole, 1/256): x in 99-100, y in 101-102,
downward speed in 103-104, leftward speed in 105-106. The game goes on from whatever stands there.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from reprl.envs.variation.base import Effect, Machine, Part, Variant, checked_severity
from reprl.validation import choice, whole

_X, _Y, _DOWN, _LEFT = 99, 101, 103, 105
_LIMITS = {_X: (57, 199), _Y: (23, 179)}  # bytes of the free field: between walls, above paddle
DIRECTIONS = {"left": (_X, -1), "right": (_X, 1), "up": (_Y, -1), "down": (_Y, 1)}


def _fixed(machine: Machine, index: int) -> int:
    ram = machine.ram
    return int(ram[index]) * 256 + int(ram[index + 1])


def _signed(value: int) -> int:
    return value - 65536 if value >= 32768 else value


def _move(machine: Machine, index: int, amount: int) -> None:
    """Shift a coordinate by 1/256 pixels, never beyond the free field or back into it."""
    low, high = _LIMITS[index]
    now = _fixed(machine, index)
    new = min(now + amount, high * 256) if amount > 0 else max(now + amount, low * 256)
    if (new - now) * amount > 0:
        machine.write(index, new >> 8)
        machine.write(index + 1, new & 255)


class Push(Effect):
    """Push the ball every few frames; at severity 0.5 by the published 2 px every 10 frames."""

    family: ClassVar[str] = "dynamics"
    games: ClassVar[tuple[str, ...]] = ("breakout",)

    def __init__(
        self,
        *,
        direction: Literal["left", "right", "up", "down"],
        period: int = 10,
        severity: float = 0.5,
    ) -> None:
        choice("direction", direction, DIRECTIONS)
        self.index, sign = DIRECTIONS[direction]
        self.amount = sign * round(4 * 256 * checked_severity(severity))
        self.period = whole("period", period, 1, 10**9)

    def before_frame(self, machine: Machine) -> None:
        """Push, if a ball is in play and it is time."""
        if machine.frame % self.period == 0 and self.amount and machine.ram[_Y]:
            _move(machine, self.index, self.amount)


class Faster(Effect):
    """Let the ball fly 1 + severity times as far in each frame."""

    family: ClassVar[str] = "dynamics"
    games: ClassVar[tuple[str, ...]] = ("breakout",)

    def __init__(self, *, severity: float = 0.5) -> None:
        self.extra = checked_severity(severity)

    def before_frame(self, machine: Machine) -> None:
        """Add the missing part of the way before the game adds its own."""
        if machine.ram[_Y]:
            right = -_signed(_fixed(machine, _LEFT))
            down = _signed(_fixed(machine, _DOWN))
            _move(machine, _X, round(self.extra * right))
            _move(machine, _Y, round(self.extra * down))


def _dynamics(name: str, effect: str, text: str, **parameters: str) -> Variant:
    part = Part(f"reprl.envs.variation.dynamics:{effect}", {**parameters, "severity": 0.5})
    return Variant(name, "dynamics", 0.5, games=("breakout",), help=text, effects=(part,))


VARIANTS = (
    _dynamics("drift_left", "Push", "The ball drifts left.", direction="left"),
    _dynamics("drift_right", "Push", "The ball drifts right.", direction="right"),
    _dynamics("gravity_up", "Push", "The ball is drawn to the top.", direction="up"),
    _dynamics("gravity_down", "Push", "The ball is drawn to the paddle.", direction="down"),
    _dynamics("faster_ball", "Faster", "The ball flies half as fast again."),
)
