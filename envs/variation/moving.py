"""Backgrounds that move behind the game, made here, and a picture that flickers.

A texture is computed once from a fixed seed, repeats itself without a seam and is moved a little in
every observation; each game begins at a place of its own. Objects stay in front of it: it shows
only where the game's own background does. Severity is how far it is from that: up to 0.5 it is
faint (easy), at 1 as bright as the game's objects (hard).
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Literal

import cv2
import numpy as np

from reprl.envs.objects import TALLEST, Objects
from reprl.envs.variation.base import Effect, Part, Variant, checked_severity
from reprl.envs.variation.drawing import background
from reprl.validation import choice

HEIGHT, WIDTH = 256, 256  # of a texture, larger than any picture, repeating
BRIGHT = 180.0  # gray levels of a texture's lightest place at severity 1
PATTERNS = ("texture", "plasma", "lines", "video")
FILM = 8  # pictures of a `video`, shown in turn


@cache
def _pattern(name: str) -> np.ndarray:
    """The pictures of a pattern, (frames, 256, 256) float from 0 to 1, without a seam."""
    rng = np.random.default_rng(7)
    y, x = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), indexing="ij")
    if name == "lines":
        return ((y + x) % 32 < 4).astype(float)[None]
    if name == "plasma":
        waves = [(1, 2), (3, -1), (2, 3), (-1, 4)]
        turns = 2 * np.pi * rng.random(len(waves))
        made = sum(
            np.sin(2 * np.pi * (a * x + b * y) / WIDTH + turn)
            for (a, b), turn in zip(waves, turns, strict=True)
        )
        return _stretched(made)[None]
    if name == "texture":
        return _stretched(_smooth(rng.random((HEIGHT, WIDTH)), 9))[None]
    # Noise that changes slowly, as of a film: smooth in place and in time.
    film = np.stack([_smooth(rng.random((HEIGHT, WIDTH)), 13) for _ in range(FILM)])
    film = (film + np.roll(film, 1, axis=0) + np.roll(film, 2, axis=0)) / 3
    return _stretched(film)


def _smooth(noise: np.ndarray, width: int) -> np.ndarray:
    around = np.pad(noise, width, mode="wrap")
    for _ in range(2):
        around = cv2.blur(around, (width, width), borderType=cv2.BORDER_REFLECT)
    return around[width:-width, width:-width]


def _stretched(values: np.ndarray) -> np.ndarray:
    """From 0 to 1, half of it dark."""
    low, high = np.quantile(values, (0.5, 0.99))
    return np.clip((values - low) / (high - low), 0, 1)


class MovingBackground(Effect):
    """A pattern that drifts behind the objects."""

    family: ClassVar[str] = "background"
    over_background = True

    def __init__(
        self,
        *,
        pattern: Literal["texture", "plasma", "lines", "video"],
        severity: float = 0.5,
    ) -> None:
        shape = _pattern(choice("pattern", pattern, PATTERNS))
        level = BRIGHT * checked_severity(severity)
        tall = np.concatenate([shape, shape], axis=1)[:, : HEIGHT + TALLEST]
        wide = np.concatenate([tall, tall], axis=2)[:, :, : WIDTH + 160]
        self._film = np.rint(level * wide).astype(np.uint8)  # (frames, 506, 416)
        self.seen = 0  # observations, from this game's phase

    def reset(self, rng: np.random.Generator) -> None:
        """Begin at a place of this game's own."""
        super().reset(rng)
        self.seen = int(rng.integers(2**20))

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Lighten the background by the pattern, then move on."""
        own = background(frame)
        top, left = self.seen % HEIGHT, 2 * self.seen % WIDTH
        picture = self._film[self.seen // 4 % len(self._film)]
        sheet = picture[top : top + frame.shape[0], left : left + frame.shape[1]]
        where = cv2.inRange(frame, own, own)
        if self.needs_objects and objects is not None:
            where[objects.shown()] = 0
        lighter = cv2.add(frame, cv2.cvtColor(sheet, cv2.COLOR_GRAY2RGB))
        cv2.copyTo(lighter, where, frame)
        self.seen += 1

    def counters(self) -> dict[str, Any]:
        """The count says where the pattern is."""
        return {"seen": self.seen}


class Flicker(Effect):
    """In a share of the observations, up to a half, the picture is black."""

    family: ClassVar[str] = "picture"

    def __init__(self, *, severity: float = 0.5) -> None:
        self.share = checked_severity(severity) / 2

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Draw lots for this observation."""
        assert self.rng is not None
        if self.rng.random() < self.share:
            frame[:] = 0


def _variant(name: str, effect: str, text: str, **parameters: str) -> Variant:
    family = "picture" if effect == "Flicker" else "background"
    part = Part(f"reprl.envs.variation.moving:{effect}", {**parameters, "severity": 0.5})
    return Variant(name, family, 0.5, help=text, effects=(part,))


VARIANTS = (
    *(
        _variant(f"moving_{pattern}", "MovingBackground", text, pattern=pattern)
        for pattern, text in (
            ("texture", "A cloudy texture drifts behind the objects."),
            ("plasma", "Smooth waves drift behind the objects."),
            ("lines", "Diagonal lines scroll behind the objects."),
            ("video", "Noise that drifts and changes, as of a film, behind the objects."),
        )
    ),
    _variant("flicker", "Flicker", "A quarter of the pictures is black."),
)
