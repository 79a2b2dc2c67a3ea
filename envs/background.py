"""A slow memory of what a game's picture looks like when nothing happens.

emulator -> picture -> **background** -> rollout. Shown is the difference to it: a drawing that is
there from the first frame on vanishes at once, whatever it looks like, while a paddle that rests
stays visible until the memory has taken it in.
"""

from __future__ import annotations

import numpy as np

NEUTRAL = 128  # the gray of a pixel that looks as remembered


class Background:
    """One picture that follows the game's by at most `rate` gray levels a step (sigma-delta)."""

    def __init__(self, size: int, rate: float) -> None:
        self.rate = np.float32(rate)
        self.memory = np.zeros((size, size), np.float32)
        self.fresh = True  # the next picture is the first of its game

    def forget(self) -> None:
        """A new game begins: its first picture becomes the memory."""
        self.fresh = True

    def difference(self, picture: np.ndarray, out: np.ndarray) -> None:
        """Write NEUTRAL plus half the difference of a picture (size, size) uint8; then learn."""
        if self.fresh:
            self.memory[:] = picture
            self.fresh = False
        change = picture - self.memory
        # half, so that 256 gray levels hold both signs; away from zero, so that none is lost
        half = np.copysign(np.ceil(np.abs(change) / 2), change)
        out[:] = np.clip(half + NEUTRAL, 0, 255).astype(np.uint8)
        self.memory += np.clip(change, -self.rate, self.rate)
