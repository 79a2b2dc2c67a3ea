"""The console's own other games: ALE's modes of a cartridge, and its difficulty switch.

Breakout has 12 modes (a paddle that holds the ball, balls that pass through bricks, bricks that are
not shown) and a second difficulty, whose paddle is 12 pixels wide and later 8. They are chosen
before a game begins, so the emulator asks an effect for them as it takes a variant.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from reprl.envs.machine import emulator
from reprl.envs.variation.base import Effect, Part, Variant
from reprl.errors import UserError
from reprl.validation import whole

MODES = tuple(range(4, 48, 4))  # of Breakout, besides 0
INVISIBLE = (12, 28, 44)  # modes whose bricks are in RAM but not on the screen
GAMES = ("breakout",)


class Mode(Effect):
    """Another mode or difficulty of Breakout's cartridge."""

    family: ClassVar[str] = "mode"
    games: ClassVar[tuple[str, ...]] = GAMES

    def __init__(self, *, mode: int | None = None, difficulty: int | None = None) -> None:
        known = {"mode": mode, "difficulty": difficulty}
        self.console = {name: whole(name, v, 0, 255) for name, v in known.items() if v is not None}
        modes, difficulties = _available(GAMES[0])
        for name, allowed in (("mode", modes), ("difficulty", difficulties)):
            if name in self.console and self.console[name] not in allowed:
                raise UserError(
                    f"{name}={self.console[name]} does not exist in {GAMES[0]}: choose from "
                    f"{', '.join(map(str, allowed))}."
                )


@cache
def _available(game: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ale = emulator(game)
    return tuple(ale.getAvailableModes()), tuple(ale.getAvailableDifficulties())


def _variant(name: str, text: str, **parameters: int) -> Variant:
    part = Part("reprl.envs.variation.modes:Mode", parameters)
    return Variant(name, "mode", None, games=GAMES, help=text, effects=(part,))


VARIANTS = (
    *(
        _variant(
            f"mode_{mode}",
            f"Breakout's mode {mode}" + (", without visible bricks." if mode in INVISIBLE else "."),
            mode=mode,
        )
        for mode in MODES
    ),
    _variant("small_paddle", "Difficulty 1: the paddle is 12 pixels wide.", difficulty=1),
)
