"""From the console's screen to the agent's picture, redoing only the rows that changed.

emulator -> **picture** -> rollout. The result is, bit for bit, that of `getScreenRGB`, the maximum
of two frames, the variant's drawing, `cvtColor` and `resize`, each over the whole picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import ale_py
import cv2
import numpy as np

from reprl.envs.objects import RAW, Objects
from reprl.envs.variation import Effect

_MANY = 0.4  # the share of changed bands above which the console's own conversion is cheaper


class Picture:
    """The last two frames, their maximum with a variant drawn on it, and that gray and small."""

    def __init__(self, size: int) -> None:
        self.frames = np.zeros((2, *RAW, 3), np.uint8)
        self.small = np.zeros((size, size), np.uint8)
        self._bands = bands(size)
        self._raw, self._out = RAW[0] // self._bands, size // self._bands  # rows of a band
        self._stale = np.ones(self._bands, bool)  # bands of the maximum that are out of date

        # The frames as bytes of the console's palette: cheap to get and to compare.
        self._screens = np.zeros((3, *RAW), np.uint8)
        self._screen_words = self._screens.reshape(3, self._bands, -1).view(np.uint64)
        self._slots, self._spare = [0, 1], 2  # where each frame is, and the one to write next
        self._has_screen = [False, False]
        self._palette = np.zeros((256, 1, 3), np.uint8)  # learnt as colours appear
        self._unknown = np.ones(256, np.uint8)

        # The maximum, and two that are drawn on in turn.
        self._pictures = np.zeros((3, *RAW, 3), np.uint8)
        self._picture_words = self._pictures.reshape(3, self._bands, -1).view(np.uint64)
        self._shown = 0
        self._gray = np.zeros(RAW, np.uint8)

    @property
    def drawn(self) -> np.ndarray:
        """The last picture shown, (210, 160, 3) uint8."""
        return self._pictures[self._shown]

    def grab(self, k: int, ale: ale_py.ALEInterface) -> None:
        """Take the console's screen as frame `k`."""
        new, old = self._spare, self._slots[k]
        screen = self._screens[new]
        ale.getScreen(screen)
        self._slots[k], self._spare = new, old
        if not self._has_screen[k]:
            self._has_screen[k] = True
            self._stale[:] = True
            self._learn(k, screen, ale)
            return
        changed = _differ(self._screen_words[new], self._screen_words[old])
        self._stale |= changed
        if np.count_nonzero(changed) > _MANY * self._bands:
            ale.getScreenRGB(self.frames[k])
            return
        for start, stop in _runs(changed):
            rows = slice(start * self._raw, stop * self._raw)
            if cv2.LUT(screen[rows], self._unknown).any():
                self._learn(k, screen, ale)
                return
            cv2.applyColorMap(screen[rows], self._palette, self.frames[k, rows])

    def copy_first(self) -> None:
        """Make the second frame the first one."""
        self.frames[1] = self.frames[0]
        self._has_screen[1] = False
        self._stale[:] = True

    def show(self, effects: Sequence[Effect], objects: Objects | None) -> None:
        """Draw the effects over the maximum of the frames and bring `small` up to date."""
        for start, stop in _runs(self._stale):
            rows = slice(start * self._raw, stop * self._raw)
            cv2.max(self.frames[0, rows], self.frames[1, rows], self._pictures[0, rows])
        before = self._shown
        if effects:
            self._shown = 2 if before == 1 else 1
            np.copyto(self.drawn, self._pictures[0])
            for effect in effects:
                effect.draw(self.drawn, objects)
            if before:
                changed = _differ(self._picture_words[1], self._picture_words[2])
            else:
                changed = np.ones(self._bands, bool)
        else:
            self._shown = 0
            changed = np.ones(self._bands, bool) if before else self._stale
        for start, stop in _runs(changed):
            self._shrink(start, stop)
        self._stale[:] = False

    def load(self, frames: np.ndarray, drawn: np.ndarray, small: np.ndarray) -> None:
        """Go on from saved frames and the picture that was shown."""
        self.frames[:] = frames
        self._shown = 1
        self.drawn[:] = drawn
        self.small[:] = small
        self._has_screen = [False, False]
        self._stale[:] = True

    def _learn(self, k: int, screen: np.ndarray, ale: ale_py.ALEInterface) -> None:
        """Let the console convert its screen, and remember the colours that are in it."""
        ale.getScreenRGB(self.frames[k])
        self._palette[screen, 0] = self.frames[k]
        self._unknown[screen] = 0

    def _shrink(self, start: int, stop: int) -> None:
        """Bring bands of the gray, small picture up to date."""
        rows = slice(start * self._raw, stop * self._raw)
        gray = cv2.cvtColor(self.drawn[rows], cv2.COLOR_RGB2GRAY, self._gray[rows])
        small = self.small[start * self._out : stop * self._out]
        cv2.resize(gray, small.shape[::-1], small, interpolation=cv2.INTER_AREA)


def bands(size: int) -> int:
    """Into how many bands of rows a picture can be cut so that each is resized by itself.

    Rows of the small picture must begin on whole rows of the raw one, at positions that OpenCV
    computes without rounding, and both sides must shrink: then a band gives the very same bytes.
    """
    count = gcd(RAW[0], size)
    out = size // count
    return count if size <= min(RAW) and out & (out - 1) == 0 else 1


def _differ(words: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which bands differ, from 8 bytes at a time, (bands, words) uint64."""
    return np.bitwise_or.reduce(words ^ others, axis=1) != 0


def _runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """The bands that are chosen as (start, stop) of neighbours."""
    found: list[tuple[int, int]] = []
    for band in chosen.nonzero()[0].tolist():
        if found and found[-1][1] == band:
            found[-1] = (found[-1][0], band + 1)
        else:
            found.append((band, band + 1))
    return found
