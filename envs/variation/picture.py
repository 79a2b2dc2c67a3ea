"""A worse picture: noise over everything, or a blur; nothing is added that could be looked at."""

from __future__ import annotations

from typing import ClassVar

import cv2
import numpy as np

from reprl.envs.objects import RAW, TALLEST, Objects
from reprl.envs.variation.base import Effect, Part, Variant, checked_severity

_SPREAD = 80.0  # standard deviation of the noise at severity 1, in gray levels
_REACH = 6  # raw pixels that the blur at severity 1 reaches to each side


class Noise(Effect):
    """Gaussian noise, new in every observation, the same for all three colours."""

    family: ClassVar[str] = "picture"

    def __init__(self, *, severity: float = 0.5) -> None:
        spread = _SPREAD * checked_severity(severity)
        # Drawing 33,600 normal numbers an observation would be slow: a sheet twice as large is
        # drawn once, and every observation takes a random window of it.
        sheet = np.random.default_rng(0).normal(0.0, 1.0, (2 * RAW[0], 2 * RAW[1], 1)) * spread
        sheet = np.pad(sheet, ((0, TALLEST - RAW[0]), (0, 0), (0, 0)), mode="wrap")
        self._lighter, self._darker = (
            np.repeat(np.clip(sign * sheet, 0, 255).round().astype(np.uint8), 3, axis=2)
            for sign in (1, -1)
        )

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Add a random window of the noise."""
        assert self.rng is not None
        top, left = (int(v) for v in self.rng.integers((0, 0), RAW))
        window = (slice(top, top + len(frame)), slice(left, left + RAW[1]))
        cv2.add(frame, self._lighter[window], frame)
        cv2.subtract(frame, self._darker[window], frame)


class Blur(Effect):
    """A blur up to 13 raw pixels wide, twice over; severity 0 is sharp."""

    family: ClassVar[str] = "picture"

    def __init__(self, *, severity: float = 0.5) -> None:
        self.width = 2 * round(_REACH * checked_severity(severity)) + 1

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Blur the whole picture: two box filters are near a Gaussian and cheaper."""
        for _ in range(2 if self.width > 1 else 0):
            cv2.blur(frame, (self.width, self.width), frame)


def _picture(name: str, effect: str, text: str) -> Variant:
    part = Part(f"reprl.envs.variation.picture:{effect}", {"severity": 0.5})
    return Variant(name, "picture", 0.5, help=text, effects=(part,))


VARIANTS = (
    _picture("noise", "Noise", "Gaussian noise, new in every observation."),
    _picture("blur", "Blur", "A blurred picture."),
)
