"""Things drawn into the picture: paint, opacity, over or under the objects, and their mask.

Shapes live on the 80x80 grid of the published variants: cell (r, c) is the 2x2 block of raw
pixels at y = 34 + 2r, x = 2c. What they are is in `shapes`; here is how they are painted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np

from reprl.envs.objects import Objects
from reprl.envs.variation.base import Effect, checked_severity
from reprl.errors import UserError
from reprl.validation import flag, number, whole

GRID = 80
TOP = 34  # raw row of grid row 0


@dataclass(frozen=True)
class Spot:
    """Pixels to paint: 255 where chosen within the smallest window that holds them all."""

    window: tuple[slice, slice]  # rows, columns of the raw picture
    pixels: np.ndarray  # window's shape, uint8, 0 or 255

    @classmethod
    def of(cls, cells: np.ndarray) -> Spot:
        """From grid cells, bool (80, 80)."""
        rows, columns = np.flatnonzero(cells.any(axis=1)), np.flatnonzero(cells.any(axis=0))
        if rows.size == 0:
            return cls((slice(0, 0), slice(0, 0)), np.zeros((0, 0), dtype=np.uint8))
        top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
        chosen = cells[top:bottom, left:right].repeat(2, axis=0).repeat(2, axis=1)
        window = (slice(TOP + 2 * top, TOP + 2 * bottom), slice(2 * left, 2 * right))
        return cls(window, 255 * chosen.astype(np.uint8))


def gray(colour: Sequence[int]) -> int:
    """The gray value the agent sees for an RGB colour."""
    pixel = np.array(colour, dtype=np.uint8).reshape(1, 1, 3)
    return int(cv2.cvtColor(pixel, cv2.COLOR_RGB2GRAY)[0, 0])


def matched(colour: Sequence[int], luminance: int) -> tuple[int, int, int]:
    """The colour nearest in hue whose gray value is exactly `luminance`."""
    paint = np.array(colour, dtype=float)
    low, high = (0.0, 0.0, 0.0), (255.0, 255.0, 255.0)
    # Towards black or white the gray value changes steadily, so bisection finds it.
    ends = (np.array(low), paint) if gray(colour) > luminance else (paint, np.array(high))
    for _ in range(24):
        middle = (ends[0] + ends[1]) / 2
        ends = (middle, ends[1]) if gray(middle.round().tolist()) < luminance else (ends[0], middle)
    best = [tuple(int(v) for v in end.round()) for end in ends]
    for red, green, blue in sorted(best, key=lambda c: abs(gray(c) - luminance)):
        # A whole step of all channels can jump over a gray value; blue alone moves it by 0.114.
        for shift in range(-12, 13):
            candidate = (red, green, min(max(blue + shift, 0), 255))
            if gray(candidate) == luminance:
                return candidate
    return (luminance, luminance, luminance)


def checked_colour(value: Any) -> tuple[int, int, int]:
    """An RGB triple, or the error that says what it must be."""
    try:
        red, green, blue = (whole("colour", v, 0, 255) for v in value)
    except (TypeError, ValueError):
        raise UserError(f"colour={value!r} must be three whole numbers from 0 to 255.") from None
    return red, green, blue


def checked_cells(name: str, value: Any) -> list[int]:
    """Rows or columns of the grid, or the error that says what they must be."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise UserError(f"{name}={value!r} must be a list of cells from 0 to {GRID - 1}.")
    return [whole(name, v, 0, GRID - 1) for v in value]


def checked_corners(at: Any) -> list[list[int]]:
    """The [row, column] of upper left cells, or the error that says what they must be."""
    if isinstance(at, str) or not isinstance(at, Sequence) or not at:
        raise UserError(f"at={at!r} must be a list of [row, column].")
    corners = [checked_cells("at", corner) for corner in at]
    if any(len(corner) != 2 for corner in corners):
        raise UserError(f"at={at!r} must be a list of [row, column].")
    return corners


class Drawing(Effect):
    """Paint some pixels once an observation.

    Severity 0 paints nothing; up to 0.5 the opacity rises to its declared value; from there to 1
    the shape grows. Under the objects means only where the background shows.
    """

    family: ClassVar[str] = "drawing"

    def __init__(
        self,
        *,
        colour: Sequence[int],
        opacity: float = 1.0,
        under: bool = False,
        luminance: int | None = None,
        severity: float = 0.5,
    ) -> None:
        severity = checked_severity(severity)
        paint = checked_colour(colour)
        if luminance is not None:
            paint = matched(paint, whole("luminance", luminance, 0, 255))
        self.colour = np.array(paint, dtype=np.uint8)
        self.opacity = number("opacity", opacity, 0, 1) * min(1.0, 2 * severity)
        self.growth = max(0.0, 2 * severity - 1)  # 0 ... 1 above the default severity
        self.under = self.over_background = flag("under", under)
        self._sheet = np.tile(self.colour, (2 * GRID, 2 * GRID, 1))  # filled once: slow to fill
        self._spot = Spot.of(np.zeros((GRID, GRID), dtype=bool))
        self._shown = self._spot.pixels

    def place(self, spot: Spot) -> None:
        """Choose the pixels that the next draws paint."""
        self._spot, self._shown = spot, spot.pixels

    def draw(self, frame: np.ndarray, objects: Objects | None) -> None:
        """Blend the colour into the chosen pixels."""
        if self.opacity == 0 or self._spot.pixels.size == 0:
            return
        window = frame[self._spot.window]
        if self.under:
            colour = background(frame)
            self._shown = cv2.inRange(window, colour, colour) & self._spot.pixels
            if self.needs_objects and objects is not None:
                self._shown[objects.shown()[self._spot.window]] = 0
        paint: Any = self._sheet[: window.shape[0], : window.shape[1]]
        if self.opacity < 1:
            paint = cv2.addWeighted(window, 1 - self.opacity, paint, self.opacity, 0.0)
        cv2.copyTo(paint, self._shown, window)

    def mask(self, out: np.ndarray) -> None:
        """Mark the pixels that the last draw painted."""
        if self.opacity > 0:
            out[self._spot.window] |= self._shown > 0

    def counters(self) -> dict[str, Any]:
        """Which pixels showed, where that depends on the picture."""
        return {"shown": np.packbits(self._shown > 0).tobytes().hex()} if self.under else {}

    def load_counters(self, counters: dict[str, Any]) -> None:
        """Take back which pixels showed; the place must already be chosen."""
        if self.under:
            bits = np.frombuffer(bytes.fromhex(counters["shown"]), dtype=np.uint8)
            shape = self._spot.pixels.shape
            shown = np.unpackbits(bits, count=self._spot.pixels.size).reshape(shape)
            self._shown = np.ascontiguousarray(255 * shown)


def background(frame: np.ndarray) -> np.ndarray:
    """The most frequent colour of a coarse sample of the picture: works in most games."""
    sample = frame[TOP::26, 5::30].reshape(-1, 3).tolist()
    codes = [(red, green, blue) for red, green, blue in sample]
    return np.array(max(set(codes), key=codes.count), dtype=np.uint8)
