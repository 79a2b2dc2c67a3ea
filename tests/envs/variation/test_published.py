"""The four published drawings, held to pixel sets computed here from the published coordinates."""

import numpy as np
import pytest

from reprl.envs.variation import find
from tests.envs.console import Console, frames

ROWS = (32, 40, 48, 56, 64, 72)


def rectangle() -> set[tuple[int, int]]:
    return {(r, c) for r in (60, 61) for c in (60, 61, 62, 63)}


def square(column: int) -> set[tuple[int, int]]:
    return {(r, c) for r in (60, 61, 62) for c in (column, column + 1, column + 2)}


def green_lines() -> set[tuple[int, int]]:
    return {(r, c) for r in ROWS for c in range(4, 80 - r + 1)}


def diagonals() -> set[tuple[int, int]]:
    cells = set()
    for start in ROWS:
        r, c = start, 4
        while (r, c) != (77, 80 - start + 1):
            cells.add((r, c))
            r, c = r + 1, c + 1
    return cells


@pytest.fixture(scope="module")
def screen() -> np.ndarray:
    console = Console()
    for _ in frames(console, 400, np.random.default_rng(0)):
        pass
    return console.screen().copy()


def published_picture(screen: np.ndarray, cells: set, colour: tuple) -> np.ndarray:
    """Their pipeline: crop, halve by the mean of 2x2, then draw: float (80, 80, 3)."""
    small = screen[34:194].reshape(80, 2, 80, 2, 3).astype(float).mean(axis=(1, 3))
    for r, c in cells:
        small[r, c] = colour
    return small


@pytest.mark.parametrize(
    ("name", "cells", "colour", "size"),
    [
        ("constant_rectangle", rectangle(), (0, 191, 255), 8),
        ("green_lines", green_lines(), (102, 203, 50), 150),
        ("diagonals", diagonals(), (210, 203, 50), 150),
    ],
)
def test_standing_drawings(screen, name: str, cells: set, colour: tuple, size: int) -> None:
    assert len(cells) == size
    (effect,) = find(name).build()
    for game in range(3):
        effect.reset(np.random.default_rng(game))
        picture = screen.copy()
        effect.draw(picture, None)
        expected = screen.copy()
        for r, c in cells:
            expected[34 + 2 * r : 36 + 2 * r, 2 * c : 2 * c + 2] = colour
        assert (picture == expected).all()
        small = picture[34:194].reshape(80, 2, 80, 2, 3).astype(float).mean(axis=(1, 3))
        assert (small == published_picture(screen, cells, colour)).all()
        mask = np.zeros((210, 160), dtype=bool)
        effect.mask(mask)
        assert mask.sum() == 4 * size
        assert (picture[mask] == colour).all()


def test_the_square_moves_on_every_1000_observations(screen) -> None:
    (effect,) = find("moving_square").build()
    starts = set()
    for game in range(12):
        effect.reset(np.random.default_rng(game))
        seen = []
        for _ in range(3100 if game == 0 else 1):
            picture = screen.copy()
            effect.draw(picture, None)
            mask = np.zeros((210, 160), dtype=bool)
            effect.mask(mask)
            first = int(mask.argmax())
            seen.append((first // 160, first % 160))
            if len(seen) % 500 == 1:
                column = seen[-1][1] // 2
                expected = screen.copy()
                for r, c in square(column):
                    expected[34 + 2 * r : 36 + 2 * r, 2 * c : 2 * c + 2] = (255, 0, 0)
                assert (picture == expected).all()
        assert all(y == 34 + 120 and x // 2 in (20, 40, 60) for y, x in seen)
        starts.add(seen[0][1] // 2)
        if game == 0:
            columns = np.array([x // 2 for _, x in seen])
            jumps = np.flatnonzero(np.diff(columns))
            assert set(np.diff(jumps)) == {1000}
            after = {20: 40, 40: 60, 60: 20}
            assert all(columns[j + 1] == after[columns[j]] for j in jumps)
    assert starts == {20, 40, 60}  # a game's phase is drawn, so short games see every place
