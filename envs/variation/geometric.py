"""The screen itself moved: shifted, rotated or made smaller, with everything that is on it.

The game is as it was; what is laid bare has the colour of the game's background. The truth moves
with the picture: boxes become the smallest upright ones around the moved objects, cut off at the
edges, and the masks of grids and of drawings are turned as the picture is.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from reprl.envs.objects import Objects, Warp, warped
from reprl.envs.variation.base import Effect, Part, Variant, checked_severity
from reprl.envs.variation.drawing import background

FURTHEST = 16  # pixels of the console, in x and in y, of a shift at severity 1
STEEPEST = 10.0  # degrees of a rotation at severity 1
SMALLEST = 0.7  # of its size that scaling leaves at severity 1


class Moved(Effect):
    """One affine map of the whole screen for each game; `direction` is drawn as a game begins."""

    family: ClassVar[str] = "geometry"

    def __init__(self, *, severity: float = 0.5) -> None:
        self.strength = checked_severity(severity)
        self.direction = [1, 1]

    def reset(self, rng: np.random.Generator) -> None:
        """Draw to which sides it goes in this game."""
        super().reset(rng)
        self.direction = [int(v) for v in 2 * rng.integers(2, size=2) - 1]

    def warp(self, raw: tuple[int, int]) -> Warp:
        """Where a point (x, y) between the pixels of a `raw` picture goes, as a matrix (2, 3)."""
        raise AssertionError(f"{type(self).__name__} must define warp()")

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Move the picture."""
        found = self.warp((frame.shape[0], frame.shape[1]))
        frame[:] = warped(frame, found, fill=background(frame), smooth=True)

    def moved(self, objects: Objects) -> Objects:
        """Move the truth alike."""
        return objects.warped(self.warp(objects.raw))

    def counters(self) -> dict[str, Any]:
        """The draw of this game."""
        return {"direction": self.direction}


class Shifted(Moved):
    """The screen a few pixels to the left or right and up or down."""

    def warp(self, raw: tuple[int, int]) -> Warp:
        """A whole number of pixels."""
        by = round(FURTHEST * self.strength)
        return (1.0, 0.0, by * self.direction[0]), (0.0, 1.0, by * self.direction[1])


class Rotated(Moved):
    """The screen turned about its middle, to the left or to the right."""

    def warp(self, raw: tuple[int, int]) -> Warp:
        """A rotation that leaves the middle where it is."""
        angle = math.radians(STEEPEST * self.strength) * self.direction[0]
        return _about_middle(math.cos(angle), math.sin(angle), raw)


class Scaled(Moved):
    """The screen made smaller, about its middle."""

    def warp(self, raw: tuple[int, int]) -> Warp:
        """The same factor in x and y."""
        return _about_middle(1 - (1 - SMALLEST) * self.strength, 0.0, raw)


def _about_middle(cos: float, sin: float, raw: tuple[int, int]) -> Warp:
    """A similarity that leaves the middle of a picture where it is."""
    x, y = raw[1] / 2, raw[0] / 2
    return (cos, -sin, x - cos * x + sin * y), (sin, cos, y - sin * x - cos * y)


def _variant(name: str, effect: str, text: str) -> Variant:
    part = Part(f"reprl.envs.variation.geometric:{effect}", {"severity": 0.5})
    return Variant(name, "geometry", 0.5, help=text, effects=(part,))


VARIANTS = (
    _variant("screen_shifted", "Shifted", "The screen 8 pixels aside and up or down."),
    _variant("screen_rotated", "Rotated", "The screen turned by 5 degrees."),
    _variant("screen_scaled", "Scaled", "The screen at 85 percent of its size."),
)
