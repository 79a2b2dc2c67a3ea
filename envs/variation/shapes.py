"""What can be drawn over the game: lines, diagonals, rectangles and a moving square.

Gamrian & Goldberg (2019) drew these on their 80x80 pictures; at severity 0.5 ours are the same
pixels. The variants made of them are in `drawn`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from reprl.envs.variation.drawing import (
    GRID,
    Drawing,
    Spot,
    checked_cells,
    checked_corners,
)
from reprl.errors import UserError
from reprl.settings import GAME_SEED
from reprl.validation import choice, flag, whole

PUBLISHED_ROWS = (32, 40, 48, 56, 64, 72)
FREE = (32, 76, 4, 76)  # top, bottom, left, right: cells below the bricks and above the paddle
GROWTH = 3  # cells that a line thickens, or a rectangle's sides move out, at severity 1
DIRECTIONS = ("horizontal", "vertical", "diagonal")


class _Placed(Drawing):
    """A drawing whose place is fixed by a position seed, or drawn anew for each game."""

    def __init__(self, *, position_seed: int | None, **options: Any) -> None:
        super().__init__(**options)
        self.position_seed = position_seed
        self.layout = 0
        if position_seed is not None:
            self.layout = GAME_SEED.checked("position_seed", position_seed)
        self.place(Spot.of(self.cells()))

    def cells(self) -> np.ndarray:
        """The grid cells of the current layout, bool (80, 80)."""
        raise AssertionError(f"{type(self).__name__} must define cells()")

    def reset(self, rng: np.random.Generator) -> None:
        """Choose this game's places."""
        super().reset(rng)
        if self.position_seed is None:
            self.layout = int(rng.integers(2**31))
            self.place(Spot.of(self.cells()))

    def counters(self) -> dict[str, Any]:
        """The layout's seed says where everything is."""
        return {**super().counters(), "layout": self.layout}

    def load_counters(self, counters: dict[str, Any]) -> None:
        """Rebuild the layout."""
        self.layout = counters["layout"]
        self.place(Spot.of(self.cells()))
        super().load_counters(counters)


class Lines(_Placed):
    """Parallel lines; without a position seed or `published` places they move every game."""

    def __init__(
        self,
        *,
        direction: Literal["horizontal", "vertical", "diagonal"] = "horizontal",
        count: int = 6,
        thickness: int = 1,
        published: bool = False,
        position_seed: int | None = None,
        **options: Any,
    ) -> None:
        choice("direction", direction, DIRECTIONS)
        if flag("published", published) and direction == "vertical":
            raise UserError("direction='vertical' was not published: only horizontal and diagonal.")
        self.direction = direction
        self.count = whole("count", count, 0, 40)
        self.thickness = whole("thickness", thickness, 1, 20)
        self.published = published
        super().__init__(position_seed=0 if published else position_seed, **options)

    def cells(self) -> np.ndarray:
        """Thin lines first, then thickened downwards (vertical lines: to the right)."""
        thin = np.zeros((GRID, GRID), dtype=bool)
        top, bottom, left, right = FREE
        if self.published:
            starts: Any = PUBLISHED_ROWS[: self.count]
        else:
            low, high = (left, right) if self.direction == "vertical" else (top, bottom)
            order = np.random.default_rng(self.layout).permutation(np.arange(low, high))
            starts = order[: self.count]  # a further line never moves the others
        for start in (int(s) for s in starts):
            if self.direction == "vertical":
                thin[top:bottom, start] = True
            elif self.direction == "horizontal":
                thin[start, left : GRID - start + 1 if self.published else right + 1] = True
            else:
                steps = np.arange(bottom - start + 1)
                thin[start + steps, left + steps] = True
        thick = thin.copy()
        for shift in range(1, self.thickness + round(GROWTH * self.growth)):
            if self.direction == "vertical":
                thick[:, shift:] |= thin[:, :-shift]
            else:
                thick[shift:] |= thin[:-shift]
        return thick


class Rectangles(_Placed):
    """Rectangles at given cells, or at places of a position seed, or moving every game."""

    def __init__(
        self,
        *,
        height: int = 3,
        width: int = 3,
        count: int = 1,
        at: list[list[int]] | None = None,  # [row, column] of each upper left cell
        position_seed: int | None = None,
        **options: Any,
    ) -> None:
        self.height = whole("height", height, 1, GRID)
        self.width = whole("width", width, 1, GRID)
        self.count = whole("count", count, 0, 100)
        self.at = None if at is None else checked_corners(at)
        super().__init__(position_seed=0 if at is not None else position_seed, **options)

    def cells(self) -> np.ndarray:
        """Every rectangle, grown on all sides."""
        out = np.zeros((GRID, GRID), dtype=bool)
        grown = round(GROWTH * self.growth)
        top, bottom, left, right = FREE
        rng = np.random.default_rng(self.layout)
        corners = self.at
        if corners is None:
            low = (top, left)
            high = (max(bottom - self.height, top) + 1, max(right - self.width, left) + 1)
            corners = rng.integers(low, high, size=(self.count, 2)).tolist()
        for row, column in corners:
            rows = slice(max(row - grown, 0), row + self.height + grown)
            out[rows, max(column - grown, 0) : column + self.width + grown] = True
        return out


class MovingSquare(Drawing):
    """A square that jumps to the next of its places after a number of observations."""

    def __init__(
        self,
        *,
        side: int = 3,
        row: int = 60,
        columns: tuple[int, ...] = (20, 40, 60),
        period: int = 1000,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.period = whole("period", period, 1, 10**9)
        grown = round(GROWTH * self.growth)
        side = whole("side", side, 1, GRID)
        row = whole("row", row, 0, GRID - 1)
        self.places = []
        for column in checked_cells("columns", columns):
            cells = np.zeros((GRID, GRID), dtype=bool)
            cells[
                max(row - grown, 0) : row + side + grown,
                max(column - grown, 0) : column + side + grown,
            ] = True
            self.places.append(Spot.of(cells))
        self.seen = 0  # observations drawn, counted from this game's phase

    def reset(self, rng: np.random.Generator) -> None:
        """Begin at a seeded phase: short games would otherwise never see it move."""
        super().reset(rng)
        self.seen = int(rng.integers(self.period * len(self.places)))

    def draw(self, frame: np.ndarray, objects: Any) -> None:
        """Paint the square where it is now, then count."""
        self.place(self.places[self.seen // self.period % len(self.places)])
        super().draw(frame, objects)
        self.seen += 1

    def counters(self) -> dict[str, Any]:
        """The count says where the square is."""
        return {**super().counters(), "seen": self.seen}

    def load_counters(self, counters: dict[str, Any]) -> None:
        """Stand where the last draw stood."""
        self.seen = counters["seen"]
        self.place(self.places[max(self.seen - 1, 0) // self.period % len(self.places)])
        super().load_counters(counters)
