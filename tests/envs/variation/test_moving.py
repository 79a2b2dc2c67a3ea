"""Moving backgrounds stay behind the objects, move and repeat themselves; flicker hides some."""

from itertools import pairwise

import numpy as np
import pytest

from reprl.envs.variation import find
from reprl.envs.variation.moving import PATTERNS, _pattern
from tests.envs.console import Console, frames


@pytest.fixture(scope="module")
def screen() -> np.ndarray:
    console = Console()
    for _ in frames(console, 200, np.random.default_rng(0)):
        pass
    return console.screen().copy()


def shown(name: str, screen: np.ndarray, count: int, seed: int = 0, severity=None) -> np.ndarray:
    (effect,) = find(name, severity).build()
    effect.reset(np.random.default_rng(seed))
    pictures = []
    for _ in range(count):
        picture = screen.copy()
        effect.draw(picture, None)
        pictures.append(picture)
    return np.stack(pictures)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_moves_behind_the_objects(pattern: str, screen: np.ndarray) -> None:
    pictures = shown(f"moving_{pattern}", screen, 6)
    objects = (screen != 0).any(-1)
    assert (pictures[:, objects] == screen[objects]).all()
    share = (pictures[:, ~objects] > 0).any(-1).mean()
    assert 0.08 < share < 0.9
    for before, after in pairwise(pictures):
        assert (before != after).any()
    assert (shown(f"moving_{pattern}", screen, 6) == pictures).all()
    assert (shown(f"moving_{pattern}", screen, 6, seed=1) != pictures).any()
    sums = [int(shown(f"moving_{pattern}", screen, 1, severity=s).sum()) for s in (0, 0.2, 0.5, 1)]
    assert sums[0] == int(screen.sum())
    assert sums == sorted(set(sums))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_has_no_seam(pattern: str) -> None:
    made = _pattern(pattern)
    assert made.min() == 0
    assert made.max() == 1
    inside = np.abs(np.diff(made, axis=1)).max()
    assert np.abs(made[:, 0] - made[:, -1]).max() <= inside
    assert np.abs(made[:, :, 0] - made[:, :, -1]).max() <= np.abs(np.diff(made, axis=2)).max()


def test_flicker_hides_a_share_of_the_pictures(screen: np.ndarray) -> None:
    for severity in (0.0, 0.5, 1.0):
        dark = ~shown("flicker", screen, 400, severity=severity).any(axis=(1, 2, 3))
        assert dark.mean() == pytest.approx(severity / 2, abs=0.06)
