"""From the console's screen to the agent's picture, resizing only the rows that changed.

emulator -> **picture** -> rollout. The result is, bit for bit, that of `getScreenRGB`, the maximum
of two frames, the variant's drawing, `cvtColor` and `resize`, each over the whole picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import gcd

import ale_py
import cv2
import numpy as np

from reprl.envs.machine import emulator
from reprl.envs.objects import RAW, TALLEST, Objects
from reprl.envs.variation import Effect

_NEAR = 2  # bands between changed ones that are resized too: fewer calls are cheaper


class Palette:
    """The console's colours, and what two of them over each other look like in gray."""

    def __init__(self, colours: np.ndarray) -> None:
        self.colours = colours  # (256, 3) uint8
        pairs = np.maximum(colours[:, None], colours)
        self.gray_pairs = cv2.cvtColor(pairs, cv2.COLOR_RGB2GRAY)  # (256, 256)
        self.gray = self.gray_pairs.diagonal().copy()
        self._lookup = colours.reshape(256, 1, 3)

    def paint(self, screens: np.ndarray, out: np.ndarray) -> None:
        """The maximum of two screens in colour; (2, H, W) uint8 -> (H, W, 3)."""
        one, other = screens
        cv2.applyColorMap(other, self._lookup, out)
        differ = one != other
        out[differ] = np.maximum(self.colours[one[differ]], self.colours[other[differ]])

    def paint_gray(self, screens: np.ndarray, out: np.ndarray) -> None:
        """The same in gray; (2, H, W) uint8 -> (H, W)."""
        one, other = screens[0].reshape(-1), screens[1].reshape(-1)
        cv2.LUT(screens[1], self.gray, out)
        differ = (one != other).nonzero()[0]  # few: what moved between two frames
        out.reshape(-1)[differ] = self.gray_pairs[one[differ], other[differ]]

    def screen_of(self, frame: np.ndarray) -> np.ndarray:
        """The screen of a frame in colour; (..., 3) uint8 -> (...)."""
        codes, known = (x.astype(np.uint32) @ (1 << 16, 1 << 8, 1) for x in (frame, self.colours))
        order = known.argsort(kind="stable")
        return order[known[order].searchsorted(codes)].astype(np.uint8)


@cache
def palette(tall: bool = False) -> Palette:
    """Ask the console for its colours: two games show on the screen what is written to their RAM.

    Pictures of 250 rows are those of European consoles, which had colours of their own.
    """
    game, byte = ("king_kong", 23) if tall else ("breakout", 64)
    ale = emulator(game)
    ale.reset_game()
    colours, known = np.zeros((256, 3), np.uint8), np.zeros(256, bool)
    for value in range(0, 256, 2):
        ale.setRAM(byte, value)
        ale.act(0)
        screen = ale.getScreen()
        colours[screen], known[screen] = ale.getScreenRGB(), True
    assert known[::2].all()
    if tall:  # after an odd number of lines such a console loses its colours
        gray = (colours[::2] @ (0.2989, 0.587, 0.114)).round()
        colours[1::2] = gray[:, None]
    return Palette(colours)


class Desk:
    """Where the pictures of a process are made, in turn: one place that stays in the cache."""

    def __init__(self, raw: tuple[int, int] = RAW) -> None:
        self.palette = palette(raw[0] == TALLEST)
        self.gray = np.zeros(raw, np.uint8)


class Picture:
    """The last two frames, their maximum with a variant drawn on it, and that gray and small."""

    def __init__(self, size: int, desk: Desk) -> None:
        self.small = np.zeros((size, size), np.uint8)
        self._desk = desk
        self.raw: tuple[int, int] = desk.gray.shape  # height, width of the console's picture
        self._screens = np.zeros((2, *self.raw), np.uint8)  # the frames as bytes of the palette
        self._drawn = np.zeros((*self.raw, 3), np.uint8)
        self._has_drawn = False  # otherwise it is the maximum of the frames
        self._bands = bands(size, self.raw)
        self._in, self._out = self.raw[0] // self._bands, size // self._bands  # rows of a band
        self._gray = np.zeros(self.raw, np.uint8)  # what `small` is made of
        self._has_gray = False

    def grab(self, k: int, ale: ale_py.ALEInterface) -> None:
        """Take the console's screen as frame `k`."""
        ale.getScreen(self._screens[k])

    def copy_first(self) -> None:
        """Make the second frame the first one."""
        self._screens[1] = self._screens[0]

    def show(self, effects: Sequence[Effect], objects: Objects | None) -> Objects | None:
        """Draw the effects over the maximum of the frames and bring `small` up to date.

        Returns the objects, if they were given, where they are in the picture now.
        """
        gray = self._desk.gray
        self._has_drawn = bool(effects)
        if effects:
            self._desk.palette.paint(self._screens, self._drawn)
            for effect in effects:
                effect.draw(self._drawn, objects)
                objects = objects and effect.moved(objects)
            cv2.cvtColor(self._drawn, cv2.COLOR_RGB2GRAY, gray)
        else:
            self._desk.palette.paint_gray(self._screens, gray)
        for start, stop in self._changed(gray):
            part = gray[start * self._in : stop * self._in]
            small = self.small[start * self._out : stop * self._out]
            cv2.resize(part, small.shape[::-1], small, interpolation=cv2.INTER_AREA)
        np.copyto(self._gray, gray)
        self._has_gray = True
        return objects

    def _changed(self, gray: np.ndarray) -> list[tuple[int, int]]:
        """The bands that changed, as (start, stop), comparing 8 bytes at a time."""
        if not self._has_gray:
            return [(0, self._bands)]
        words = gray.reshape(self._bands, -1).view(np.uint64)
        before = self._gray.reshape(self._bands, -1).view(np.uint64)
        found: list[tuple[int, int]] = []
        for band in np.bitwise_or.reduce(words ^ before, axis=1).nonzero()[0].tolist():
            if found and band - found[-1][1] <= _NEAR:
                found[-1] = (found[-1][0], band + 1)
            else:
                found.append((band, band + 1))
        return found

    def gray(self) -> np.ndarray:
        """The last picture shown in gray at raw size, (*raw) uint8; not to be written."""
        return self._gray

    def frames(self) -> np.ndarray:
        """The last two frames, (2, *raw, 3) uint8."""
        return self._desk.palette.colours[self._screens]

    def drawn(self) -> np.ndarray:
        """A copy of the last picture shown, (*raw, 3) uint8."""
        return self._drawn.copy() if self._has_drawn else self.frames().max(axis=0)

    def load(self, frames: np.ndarray, drawn: np.ndarray, small: np.ndarray) -> None:
        """Go on from saved frames and the picture that was shown."""
        self._screens[:] = self._desk.palette.screen_of(frames)
        self._drawn[:] = drawn
        self.small[:] = small
        self._has_drawn = True
        self._has_gray = False


def bands(size: int, raw: tuple[int, int] = RAW) -> int:
    """Into how many bands of rows a picture can be cut so that each is resized by itself.

    Rows of the small picture must begin on whole rows of the raw one, at positions that OpenCV
    computes without rounding, and both sides must shrink: then a band gives the very same bytes.
    """
    count = gcd(raw[0], size)
    out = size // count
    return count if size <= min(raw) and out & (out - 1) == 0 else 1
