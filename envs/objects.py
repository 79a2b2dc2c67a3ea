"""Ground truth: what is where on Breakout's screen, read from the console's 128 bytes of RAM.

Variants, the scripted agent and the attention scores all see the game through `Objects`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

RAW = (210, 160)  # height, width of the console's picture
TALLEST = 250  # rows of a European console's picture; other games have 210 to 230
BRICK_WIDTH, BRICK_HEIGHT = 8, 6
_WALL = (slice(57, 57 + 6 * BRICK_HEIGHT), slice(8, 8 + 18 * BRICK_WIDTH))
FIELD = (8, 32, 152, 196)  # left, top, right, bottom edges between which the ball flies

# Brick (r, c) is bit b of ram[6j + 5 - r]; (j, b) for the columns from left to right.
_BITS = (
    *((5, 6), (4, 6), (4, 4), (4, 2), (4, 0), (3, 0), (3, 2), (3, 4), (3, 6)),
    *((2, 4), (2, 6), (1, 6), (1, 4), (1, 2), (1, 0), (0, 0), (0, 2), (0, 4)),
)
_BRICK_BYTE = np.array([[6 * j + 5 - r for j, _ in _BITS] for r in range(6)])  # (6, 18)
_BRICK_BIT = np.array([1 << b for _, b in _BITS], dtype=np.uint8)  # (18,)


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


def _touched(low: float, high: float, limit: int) -> tuple[int, int]:
    # The margin keeps a rounding error of 1e-13 from touching one more pixel.
    first, last = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    return min(max(first, 0), limit), min(max(last, 0), limit)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@dataclass
class Objects:
    """Everything on the screen; boxes and `distractor` are in pixels of a `shape` picture."""

    ball: Box | None
    paddle: Box | None
    bricks: np.ndarray  # (6, 18) bool, row 0 on top
    distractor: np.ndarray  # shape, bool
    score: int
    lives: int
    shape: tuple[int, int] = field(default=RAW)

    def scaled(self, size: int | tuple[int, int]) -> Objects:
        """The same in the coordinates of an observation: float boxes, distractor where touched."""
        shape = _pair(size)
        return replace(
            self,
            ball=self.ball and self.ball.scaled(shape, self.shape),
            paddle=self.paddle and self.paddle.scaled(shape, self.shape),
            distractor=resized(self.distractor, shape),
            shape=shape,
        )

    def masks(self, size: int | tuple[int, int] | None = None) -> dict[str, np.ndarray]:
        """Bool pictures per class; a pixel may belong to several, background to no other."""
        here = self if size is None or _pair(size) == self.shape else self.scaled(size)
        bricks = np.zeros(RAW, dtype=bool)
        bricks[_WALL] = self.bricks.repeat(BRICK_HEIGHT, axis=0).repeat(BRICK_WIDTH, axis=1)
        found = {
            "ball": _mask_of(here.ball, here.shape),
            "paddle": _mask_of(here.paddle, here.shape),
            "bricks": bricks if here.shape == RAW else resized(bricks, here.shape),
            "distractor": here.distractor.copy(),
        }
        found["background"] = ~np.logical_or.reduce(list(found.values()))
        return found


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


def _bcd(byte: int) -> int:
    return 10 * (byte >> 4) + (byte & 15)


def breakout_objects(ram: np.ndarray, distractor: np.ndarray | None = None) -> Objects:
    """Read Breakout's RAM, uint8 (128,), as it is after the frame on the screen.

    The ball's box is where the game has it; above row 93 the console paints it one scanline
    higher, gray or in the colour of the brick row.
    """
    ball_y = int(ram[101]) + 9
    seen = ram[101] != 0 and ball_y <= 196
    return Objects(
        ball=Box(int(ram[99]) - 49, ball_y, 2, 4) if seen else None,
        paddle=Box(int(ram[72]) - 47, 189, 2 * int(ram[108]), 4) if ram[108] else None,
        bricks=(ram[_BRICK_BYTE] & _BRICK_BIT) != 0,
        distractor=np.zeros(RAW, dtype=bool) if distractor is None else distractor,
        score=100 * _bcd(int(ram[76])) + _bcd(int(ram[77])),
        lives=int(ram[57]),
    )
