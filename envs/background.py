"""A slow memory of what a game's picture looks like when nothing happens.

emulator -> picture -> **background** -> rollout. Shown is the difference to it: a drawing that is
there from the first frame on vanishes at once, whatever it looks like, while a paddle that rests
stays visible until the memory has taken it in.
"""

from __future__ import annotations

import cv2
import numpy as np

ADAPTIVE = "adaptive"
RATE = 1.0  # gray levels a step that the adaptive memory follows

# What the adaptive memory goes by; gray levels, steps, pixels.
LEAST = 8.0  # a smaller change is never one
SPREAD = 3.0  # how often a place's usual flicker a change must be to be one
RISE, FALL = 2.0, 1.0  # a step, of what is usual: so that a third of the steps may change by more
LEFT_AFTER = 15  # steps: then a mark that the picture no longer has is taken for one that was left
TAKEN_IN_AFTER = 300  # steps: then what stands there belongs to the picture
AROUND = 5  # the width of a place's surroundings
CONTRAST = np.ones((7, 7), np.uint8)  # the neighbourhood whose largest change is shown as white
FAINT = 0.25  # of that largest change: less is not shown


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

    def arrays(self) -> list[np.ndarray]:
        """All that it remembers, to be saved and written back in place."""
        return [self.memory]


class AdaptiveMemory(PictureMemory):
    """Shows what changed more than its place usually does, each change at full contrast.

    Sigma-delta background subtraction (Manzanera & Richefeu) with three additions. What is usual at
    a place follows the change from step to step, not the distance to the memory, so that flicker
    and noise raise it and a paddle that rests does not. The memory stands still under what is seen,
    except where the picture has lost a mark that the memory still has: that was left behind. And
    what is seen is divided by the largest change around it, so that its colour does not matter.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size, RATE)
        self.usual = np.full((size, size), LEAST, np.float32)
        self.previous = np.zeros((size, size), np.float32)
        self.seen_for = np.zeros((size, size), np.float32)  # steps without a break

    def difference(self, picture: np.ndarray, out: np.ndarray) -> None:
        """Write what changed in a picture (size, size) uint8, 0 to 255; then learn."""
        now = picture.astype(np.float32)
        if self.fresh:
            self.memory[:] = self.previous[:] = now
            self.usual.fill(LEAST)
            self.seen_for.fill(0)
            self.fresh = False
        flicker = cv2.absdiff(now, self.previous) * SPREAD
        self.previous[:] = now
        self.usual += np.where(flicker > self.usual, np.float32(RISE), np.float32(-FALL))
        np.clip(self.usual, LEAST, 255, out=self.usual)

        change = now - self.memory
        distance = np.abs(change)
        seen = distance > self.usual
        self.seen_for += 1
        self.seen_for *= seen
        taken_in = self.seen_for > TAKEN_IN_AFTER
        taken_in |= (self.seen_for >= LEFT_AFTER) & (_contrast(self.memory) > _contrast(now))
        _show(distance, seen & ~taken_in, out)

        change[seen] = 0
        self.memory += np.clip(change, -self.rate, self.rate)
        np.copyto(self.memory, now, where=taken_in)
        self.seen_for[taken_in] = 0

    def arrays(self) -> list[np.ndarray]:
        return [self.memory, self.usual, self.previous, self.seen_for]


def _contrast(picture: np.ndarray) -> np.ndarray:
    """How much each pixel stands out from its surroundings."""
    return cv2.absdiff(picture, cv2.blur(picture, (AROUND, AROUND)))


def _show(distance: np.ndarray, seen: np.ndarray, out: np.ndarray) -> None:
    """What is seen, as a share of the largest distance around, 0 to 255; a lone pixel is noise."""
    mark = seen.astype(np.uint8)
    beside = cv2.boxFilter(mark, -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT)
    kept = np.where(seen & (beside >= 2), distance, np.float32(0))
    largest = cv2.dilate(kept, CONTRAST)
    share = kept / np.maximum(largest, 1)
    out[:] = np.where(share > FAINT, np.rint(share * 255), 0)


def memory_of(size: int, background: float | str | None) -> PictureMemory | None:
    """The memory that `env.background` asks for: none, a number's rate, or the adaptive one."""
    if background is None:
        return None
    if background == ADAPTIVE:
        return AdaptiveMemory(size)
    return PictureMemory(size, float(background))
