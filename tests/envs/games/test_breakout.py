"""Ground truth against the screen itself."""

import numpy as np
import pytest

from reprl.envs.games.breakout import breakout_objects
from reprl.envs.objects import Box, resized
from tests.envs.console import Console, follow, frames

RED = (200, 72, 72)  # paddle, ball, top brick row
ROWS = ((200, 72, 72), (198, 108, 58), (180, 122, 48), (162, 162, 42), (72, 160, 72), (66, 72, 200))


BETWEEN = (slice(32, 195), slice(8, 152))  # between the walls, where objects are


def painted(ball: Box | None) -> np.ndarray:
    """The pixels the console lights for a ball: above row 93, one scanline higher."""
    lines = np.zeros((210, 160), dtype=bool)
    if ball is not None:
        lines = ball.mask()
        lines[31:93] = lines[32:94].copy()
    return lines


@pytest.mark.parametrize(("difficulty", "seed", "widths"), [(0, 1, [12, 16]), (1, 3, [8, 12])])
def test_objects_are_where_the_screen_shows_them(difficulty: int, seed: int, widths: list) -> None:
    console = Console(difficulty=difficulty)
    balls = standing = behind = 0
    met: set[float] = set()
    for _ in frames(console, 7000, np.random.default_rng(seed)):
        screen, objects = console.screen(), breakout_objects(console.ram)
        assert objects.paddle is not None
        masks = objects.masks()
        lit = screen[..., 0] > 0  # every colour of the game has red in it
        ball = painted(objects.ball)
        assert (lit == (ball | masks["paddle"] | masks["bricks"]))[BETWEEN].all()
        for r, colour in enumerate(ROWS):  # bricks, and a ball among them, have the row's colour
            row = (slice(57 + 6 * r, 63 + 6 * r), slice(8, 152))
            assert (screen[row][lit[row]] == colour).all()
        below = (slice(93, 195), slice(8, 152))
        assert (screen[below][lit[below]] == RED).all()
        assert objects.lives == console.ale.lives()
        balls += objects.ball is not None
        behind += objects.ball is not None and objects.ball.y < 54
        standing += int(objects.bricks.sum())
        met.add(objects.paddle.w)
    assert balls > 3000
    assert 0 < standing < 7000 * 108
    assert behind > 10
    assert sorted(met) == widths  # it shrinks once the ball has been behind the wall


def test_what_is_shown_is_what_the_console_lights() -> None:
    console = Console()
    for i in frames(console, 900, np.random.default_rng(2)):
        seen = breakout_objects(console.ram)
        if i % 3 == 0:
            masks = seen.masks()
            lit = painted(seen.ball) | masks["paddle"] | masks["bricks"]
            assert (seen.shown() == lit).all()
    ram = console.ram.copy()
    for byte in range(23, 188):  # every height of the ball between the walls
        ram[101] = byte
        seen = breakout_objects(ram)
        assert (seen.painted["ball"].mask() == painted(seen.ball)).all(), byte


def test_score_is_the_sum_of_rewards() -> None:
    console = Console()
    console.reset()
    total = 0.0
    rng = np.random.default_rng(0)
    aim = 0
    for i in range(4000):
        if console.ale.game_over():
            break
        if i % 60 == 0:
            aim = int(rng.integers(-6, 7))
        total += console.act(follow(console.ram, aim))
        assert breakout_objects(console.ram).score == total
    assert total > 20


def test_scaled_boxes_and_masks_follow_area_resizing() -> None:
    box = Box(80, 189, 16, 4)
    scaled = box.scaled(84)
    assert (scaled.x, scaled.w) == pytest.approx((42.0, 8.4))
    assert (scaled.y, scaled.y + scaled.h) == pytest.approx((75.6, 77.2))
    assert box.scaled(84).slices((84, 84)) == (slice(75, 78), slice(42, 51))
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    for size in ((84, 84), (64, 64), (42, 42), (210, 160), (36, 36)):
        raw = rng.random((210, 160)) < 0.01
        area = cv2.resize(raw.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)
        assert (resized(raw, size) == (area > 1e-6)).all()


def test_classes_cover_the_picture() -> None:
    console = Console()
    for _ in frames(console, 60, np.random.default_rng(0)):
        pass
    line = np.zeros((210, 160), dtype=bool)
    line[120] = True
    objects = breakout_objects(console.ram, line)
    for size in (None, 84, 64):
        masks = objects.masks(size)
        assert list(masks) == ["ball", "paddle", "bricks", "distractor", "background"]
        union = np.logical_or.reduce([masks[k] for k in list(masks)[:-1]])
        assert (masks["background"] == ~union).all()
        assert all(m.any() for m in masks.values())
    assert (objects.scaled(84).distractor == objects.masks(84)["distractor"]).all()
