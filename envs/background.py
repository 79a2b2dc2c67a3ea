"""A slow memory of what a game's picture looks like when nothing happens.

emulator -> picture -> **background** -> rollout. Shown is the difference to it: a drawing that is
there from the first frame on vanishes at once, whatever it looks like, while a paddle that rests
stays visible until the memory has taken it in.
"""

from __future__ import annotations

import numpy as np


class PictureMemory:
    """One picture that follows the game's by at most `rate` gray levels a step (sigma-delta)."""

    def __init__(self, size: int, rate: float) -> None:
        self.rate = np.float32(rate)
        self.memory = np.zeros((size, size), np.float32)
        self.fresh = True  # the next picture is the first of its game

    def forget(self) -> None:
        """A new game begins: its first picture becomes the memory."""
        self.fresh = True

    def difference(self, picture: np.ndarray, out: np.ndarray) -> None:
        """Write how far a picture (size, size) uint8 is from the memory, 0 to 255; then learn.

        Without its sign: what is darker than remembered counts as much as what is brighter, and
        nothing is black, as before a game's first frame.
        """
        if self.fresh:
            self.memory[:] = picture
            self.fresh = False
        change = picture - self.memory
        out[:] = np.rint(np.abs(change))
        self.memory += np.clip(change, -self.rate, self.rate)
