"""Ground truth: what is where on a game's screen, as named boxes and named grids of cells.

Variants, scripted agents and the attention scores all see the game through `Objects`; which
objects there are is the business of `reprl.envs.games`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

RAW = (210, 160)  # height, width of the console's picture
TALLEST = 250  # rows of a European console's picture; other games have 210 to 230
# Where a point (x, y) between pixels goes: two rows of a matrix that (x, y, 1) is multiplied by.
Warp = tuple[tuple[float, float, float], tuple[float, float, float]]
DISTRACTOR, BACKGROUND = "distractor", "background"  # the classes that every game has


@dataclass(frozen=True)
class Box:
    """A rectangle given by its edges: it covers x up to, but not including, x + w."""

    x: float
    y: float
    w: float
    h: float

    @property
    def center(self) -> tuple[float, float]:
        """The middle (x, y), between edges."""
        return self.x + self.w / 2, self.y + self.h / 2

    def scaled(self, size: int | tuple[int, int], raw: tuple[int, int] = RAW) -> Box:
        """The same rectangle in a picture of `size` (height, width) instead of `raw`."""
        height, width = _pair(size)
        fy, fx = height / raw[0], width / raw[1]
        return Box(self.x * fx, self.y * fy, self.w * fx, self.h * fy)

    def warped(self, warp: Warp, raw: tuple[int, int] = RAW) -> Box | None:
        """The smallest upright rectangle around the moved one, cut off at the picture's edges."""
        corners = [(self.x + a * self.w, self.y + b * self.h, 1.0) for a in (0, 1) for b in (0, 1)]
        ends = []
        for row, limit in zip(warp, (raw[1], raw[0]), strict=True):
            places = [sum(m * c for m, c in zip(row, corner, strict=True)) for corner in corners]
            ends.append((max(min(places), 0.0), min(max(places), float(limit))))
        (left, right), (top, bottom) = ends
        if left >= right or top >= bottom:
            return None
        return Box(left, top, right - left, bottom - top)

    def slices(self, shape: tuple[int, int]) -> tuple[slice, slice]:
        """Row and column slices of every pixel the rectangle touches."""
        top, bottom = _touched(self.y, self.y + self.h, shape[0])
        left, right = _touched(self.x, self.x + self.w, shape[1])
        return slice(top, bottom), slice(left, right)

    def mask(self, shape: tuple[int, int] = RAW) -> np.ndarray:
        """Bool picture of every pixel the rectangle touches."""
        out = np.zeros(shape, dtype=bool)
        out[self.slices(shape)] = True
        return out


@dataclass(frozen=True)
class Grid:
    """Many objects of one class: bool cells of equal size, the first at (x, y) of the raw picture.

    Cells of one pixel are a mask of any shape.
    """

    cells: np.ndarray  # (rows, columns) bool
    x: int = 0
    y: int = 0
    w: int = 1  # of one cell
    h: int = 1
    warp: Warp | None = None  # of a screen that was moved: where these places are now

    @classmethod
    def of(cls, boxes: Iterable[Box], raw: tuple[int, int] = RAW) -> Grid:
        """The pixels that any of some boxes touches."""
        out = np.zeros(raw, dtype=bool)
        for box in boxes:
            out[box.slices(raw)] = True
        return cls(out)

    def __eq__(self, other: object) -> bool:
        """Equal cells at the same place: a dataclass's own would compare arrays as numbers."""
        if not isinstance(other, Grid):
            return NotImplemented
        places = [(g.x, g.y, g.w, g.h, g.warp) for g in (self, other)]
        return places[0] == places[1] and np.array_equal(self.cells, other.cells)

    def mask(self, raw: tuple[int, int] = RAW) -> np.ndarray:
        """Bool picture of the raw size."""
        rows, columns = self.cells.shape
        out = np.zeros(raw, dtype=bool)
        window = out[self.y : self.y + rows * self.h, self.x : self.x + columns * self.w]
        window[:] = self.cells.repeat(self.h, axis=0).repeat(self.w, axis=1)
        return out if self.warp is None else warped(out, self.warp)


def _touched(low: float, high: float, limit: int) -> tuple[int, int]:
    # The margin keeps a rounding error of 1e-13 from touching one more pixel.
    first, last = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    return min(max(first, 0), limit), min(max(last, 0), limit)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@dataclass
class Objects:
    """Everything on the screen; boxes and `distractor` are in pixels of a `shape` picture.

    Each box and each grid is an attribute too: `objects.ball` is the box or None while there is
    none on the screen, `objects.bricks` the cells of a grid, bool (rows, columns).
    """

    boxes: dict[str, Box | None]
    grids: dict[str, Grid] = field(default_factory=dict)  # always in raw pixels
    score: int = 0
    lives: int = 0
    distractor: np.ndarray = None  # type: ignore[assignment]  # shape, bool; empty if not given
    painted: dict[str, Box] = field(default_factory=dict)  # where the screen differs from a box
    shape: tuple[int, int] = RAW
    raw: tuple[int, int] = RAW
    source: Objects | None = None  # where a screen was moved: the truth before that

    def __post_init__(self) -> None:
        if self.distractor is None:
            self.distractor = np.zeros(self.shape, dtype=bool)

    def __eq__(self, other: object) -> bool:
        """Equal truth and drawing: a dataclass's own would compare arrays as numbers."""
        if not isinstance(other, Objects):
            return NotImplemented
        ours, theirs = (
            (o.boxes, o.grids, o.score, o.lives, o.painted, o.shape, o.raw) for o in (self, other)
        )
        return ours == theirs and np.array_equal(self.distractor, other.distractor)

    def __getattr__(self, name: str) -> Any:
        boxes, grids = self.__dict__.get("boxes", {}), self.__dict__.get("grids", {})
        if name in boxes:
            return boxes[name]
        if name in grids:
            return grids[name].cells
        known = ", ".join((*boxes, *grids)) or "none"
        raise AttributeError(f"no object of this game is called '{name}': there are {known}")

    @property
    def console(self) -> Objects:
        """The truth as the console has it, also where a variant moved the screen."""
        return self if self.source is None else self.source

    def warped(self, warp: Warp) -> Objects:
        """The same on a screen that was moved; only for the raw picture."""
        assert self.shape == self.raw
        boxes = {k: box and box.warped(warp, self.raw) for k, box in self.boxes.items()}
        painted = {k: box.warped(warp, self.raw) for k, box in self.painted.items()}
        return replace(
            self,
            boxes=boxes,
            grids={k: replace(g, warp=_after(g.warp, warp)) for k, g in self.grids.items()},
            painted={k: box for k, box in painted.items() if box is not None},
            distractor=warped(self.distractor, warp),
            source=self.console,
        )

    def scaled(self, size: int | tuple[int, int]) -> Objects:
        """The same in the coordinates of an observation: float boxes, distractor where touched."""
        shape = _pair(size)
        return replace(
            self,
            boxes={k: box and box.scaled(shape, self.shape) for k, box in self.boxes.items()},
            painted={k: box.scaled(shape, self.shape) for k, box in self.painted.items()},
            distractor=resized(self.distractor, shape),
            shape=shape,
        )

    def masks(self, size: int | tuple[int, int] | None = None) -> dict[str, np.ndarray]:
        """Bool pictures per class; a pixel may belong to several, background to no other."""
        here = self if size is None or _pair(size) == self.shape else self.scaled(size)
        found = {name: _mask_of(box, here.shape) for name, box in here.boxes.items()}
        for name, grid in here.grids.items():
            mask = grid.mask(self.raw)
            found[name] = mask if here.shape == self.raw else resized(mask, here.shape)
        found[DISTRACTOR] = here.distractor.copy()
        found[BACKGROUND] = ~np.logical_or.reduce(list(found.values()))
        return found

    def shown(self) -> np.ndarray:
        """Bool, raw size: the pixels that the console paints as any of the objects."""
        out = np.zeros(self.raw, dtype=bool)
        for name, box in self.boxes.items():
            if box is not None:
                out[self.painted.get(name, box).slices(self.raw)] = True
        for grid in self.grids.values():
            out |= grid.mask(self.raw)
        return out

    def facts(self) -> Hashable:
        """Everything but the drawing: equal at the same moment of the same game."""
        cells = tuple((name, grid.cells.tobytes()) for name, grid in self.grids.items())
        return tuple(self.boxes.items()), cells, self.score, self.lives


def edges(objects: Iterable[Objects], size: int | tuple[int, int]) -> np.ndarray:
    """The boxes as left, top, right, bottom in a picture of `size`: (n, K, 4) float32.

    K boxes in the order of their names; NaN for one that is not on the screen.
    """
    rows = []
    for seen in objects:
        boxes = [seen.scaled(size).boxes[name] for name in sorted(seen.boxes)]
        rows.append([(b.x, b.y, b.x + b.w, b.y + b.h) if b else (math.nan,) * 4 for b in boxes])
    return np.array(rows, np.float32)


def warped(
    picture: np.ndarray, warp: Warp, *, fill: Any = (0, 0, 0), smooth: bool = False
) -> np.ndarray:
    """A picture (H, W) or (H, W, 3) moved; what is laid bare is `fill`."""
    matrix = np.array(warp)
    # The matrix is for places between pixels, OpenCV's for the middles of pixels.
    matrix[:, 2] += matrix[:, :2].sum(axis=1) / 2 - 0.5
    height, width = picture.shape[:2]
    out = cv2.warpAffine(
        picture.astype(np.uint8),
        matrix,
        (width, height),
        flags=cv2.INTER_LINEAR if smooth else cv2.INTER_NEAREST,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=tuple(int(v) for v in fill),
    )
    return out.astype(picture.dtype)


def _after(first: Warp | None, then: Warp) -> Warp:
    """Two moves as one."""
    if first is None:
        return then
    rows = (np.array(then) @ np.vstack([first, (0.0, 0.0, 1.0)])).tolist()
    return tuple(rows[0]), tuple(rows[1])


def _mask_of(box: Box | None, shape: tuple[int, int]) -> np.ndarray:
    return np.zeros(shape, dtype=bool) if box is None else box.mask(shape)


def resized(mask: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A bool picture at another size: True wherever a True pixel covers some of the new one."""
    out = np.zeros(shape, dtype=bool)
    rows, columns = np.nonzero(mask)
    if rows.size == 0:
        return out
    spans = []
    for index, old, new in ((rows, mask.shape[0], shape[0]), (columns, mask.shape[1], shape[1])):
        # Whole numbers only: pixel i covers new pixels floor(i*new/old) ... ceil((i+1)*new/old)-1.
        spans.append((index * new // old, -((index + 1) * new // -old)))
    (top, bottom), (left, right) = spans
    for dy in range(int((bottom - top).max())):
        for dx in range(int((right - left).max())):
            out[np.minimum(top + dy, bottom - 1), np.minimum(left + dx, right - 1)] = True
    return out


def __getattr__(name: str) -> Any:
    # Their place until 0.2; these modules import this one.
    if name in ("breakout_objects", "BRICK_WIDTH", "BRICK_HEIGHT", "FIELD"):
        from reprl.envs.games import breakout

        return getattr(breakout, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
