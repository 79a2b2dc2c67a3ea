"""Other colours for paddle and ball, bricks and background, standing or strobing.

Breakout reads the colours of paddle and ball (RAM 62) and brick rows (64-69) anew in each frame
and restores them itself, so writing them changes the picture and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import cv2
import numpy as np

from reprl.envs.objects import Objects
from reprl.envs.variation.base import Effect, Machine, Part, Variant, checked_severity
from reprl.envs.variation.drawing import background, checked_colour
from reprl.errors import unknown

_PLAYER = (62,)
_BRICKS = (64, 65, 66, 67, 68, 69)  # bottom row first
TARGETS = {"player": _PLAYER, "bricks": _BRICKS}
# Bytes of the console's palette, as HackAtari chose them, and a brown with the player's own gray.
# Black is 1, not 0: the game branches on a zero in RAM 62, and the lowest bit has no colour.
COLOURS: Mapping[str, int] = {
    "black": 1,
    "white": 12,
    "red": 48,
    "blue": 113,
    "green": 200,
    "matched": 36,
}
# The console's grays for the player, by the value an agent sees; its own red has 110, white 214.
GRAYS: Mapping[str, int] = {
    "gray_74": 2,
    "gray_111": 4,
    "gray_142": 6,
    "gray_170": 8,
    "gray_192": 10,
}
_BRIGHT = np.array([16 * hue + light for hue in range(16) for light in (4, 6, 8, 10, 12)])


class Recolour(Effect):
    """One colour for the player (paddle and ball) or for all bricks."""

    family: ClassVar[str] = "colour"
    games: ClassVar[tuple[str, ...]] = ("breakout",)

    def __init__(self, *, target: Literal["player", "bricks"], colour: str) -> None:
        self.bytes = _target(target)
        known = {**COLOURS, **GRAYS}
        if colour not in known:
            raise unknown("colour", colour, known)
        self.value = known[colour]
        self.camouflages = colour == "black"

    def before_frame(self, machine: Machine) -> None:
        """Write the colour; the game restores its own after each frame."""
        for index in self.bytes:
            machine.write(index, self.value)


class Strobe(Effect):
    """Colours that change within the game, in a share of the frames given by severity.

    Severity 1 changes them before every frame, 0 once a game.
    """

    family: ClassVar[str] = "strobe"
    games: ClassVar[tuple[str, ...]] = ("breakout",)

    def __init__(self, *, target: Literal["player", "bricks"], severity: float = 1.0) -> None:
        self.bytes = _target(target)
        self.share = checked_severity(severity)
        self.values = [0] * len(self.bytes)

    def reset(self, rng: np.random.Generator) -> None:
        """Choose the first colours."""
        super().reset(rng)
        self._choose()

    def _choose(self) -> None:
        assert self.rng is not None
        self.values = [int(v) for v in self.rng.choice(_BRIGHT, len(self.bytes))]

    def before_frame(self, machine: Machine) -> None:
        """Change the colours where their share of frames is due, and write them."""
        frame = machine.frame
        if int((frame + 1) * self.share) > int(frame * self.share):
            self._choose()
        for index, value in zip(self.bytes, self.values, strict=True):
            machine.write(index, value)

    def counters(self) -> dict[str, Any]:
        """The colours now."""
        return {"values": self.values}


class BrickRows(Strobe):
    """New colours for the brick rows, chosen once a game."""

    family: ClassVar[str] = "colour"

    def __init__(self) -> None:
        super().__init__(target="bricks", severity=0.0)


class Background(Effect):
    """Another background; severity is how far its colour is from the game's own."""

    family: ClassVar[str] = "colour"
    over_background = True

    def __init__(self, *, colour: tuple[int, int, int], severity: float = 0.5) -> None:
        self.colour = np.array(checked_colour(colour), dtype=float)
        self.severity = checked_severity(severity)
        self._own = np.zeros(3, dtype=np.uint8)
        self._sheet: np.ndarray | None = None  # the new background, kept while the old one stays

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Replace the most frequent colour: the console keeps no byte for it."""
        own = background(frame)
        if self._sheet is None or not np.array_equal(own, self._own):
            new = (own + self.severity * (self.colour - own)).round().astype(np.uint8)
            self._own, self._sheet = own, np.tile(new, (*frame.shape[:2], 1))
        where = cv2.inRange(frame, own, own)
        if self.needs_objects and objects is not None:
            where[objects.shown()] = 0
        cv2.copyTo(self._sheet, where, frame)


def _target(name: str) -> tuple[int, ...]:
    if name not in TARGETS:
        raise unknown("target of a colour", name, TARGETS)
    return TARGETS[name]


def _variant(
    name: str, effect: str, text: str, severity: float | None = None, **parameters: Any
) -> Variant:
    family = "strobe" if effect == "Strobe" else "colour"
    if severity is not None:
        parameters["severity"] = severity
    part = Part(f"reprl.envs.variation.colour:{effect}", parameters)
    games = None if effect == "Background" else ("breakout",)
    return Variant(name, family, severity, games=games, help=text, effects=(part,))


VARIANTS = (
    *(
        _variant(
            f"player_{colour}",
            "Recolour",
            f"Paddle and ball are {colour}.",
            target="player",
            colour=colour,
        )
        for colour in COLOURS
        if colour != "matched"
    ),
    *(
        _variant(
            f"player_{colour}",
            "Recolour",
            f"Paddle and ball are gray: {colour.rpartition('_')[2]} of 255.",
            target="player",
            colour=colour,
        )
        for colour in GRAYS
    ),
    _variant(
        "player_matched",
        "Recolour",
        "Paddle and ball are brown, with their own gray value: an agent that sees gray sees none.",
        target="player",
        colour="matched",
    ),
    *(
        _variant(
            f"bricks_{colour}",
            "Recolour",
            f"All bricks are {colour}.",
            target="bricks",
            colour=colour,
        )
        for colour in COLOURS
        if colour != "matched"
    ),
    _variant(
        "bricks_resampled",
        "BrickRows",
        "Every game draws new colours for the brick rows.",
    ),
    _variant(
        "background_gray", "Background", "A gray background.", severity=0.5, colour=[128, 128, 128]
    ),
    _variant(
        "background_blue", "Background", "A blue background.", severity=0.5, colour=[40, 80, 255]
    ),
    _variant(
        "strobing_player",
        "Strobe",
        "Paddle and ball change their colour before every frame.",
        severity=1.0,
        target="player",
    ),
    _variant(
        "strobing_bricks",
        "Strobe",
        "Brick rows change their colours before every frame.",
        severity=1.0,
        target="bricks",
    ),
)
