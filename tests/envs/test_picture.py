"""The picture made of changed rows only, against OpenCV over the whole picture."""

import cv2
import numpy as np
import pytest

from reprl.envs import Effect, find, make_vec_env
from reprl.envs.machine import console
from reprl.envs.objects import RAW
from reprl.envs.picture import Desk, Picture, bands, palette


class Console:
    """A screen that changes here and there."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.screen = np.zeros(RAW, np.uint8)

    def run(self) -> None:
        if self.rng.random() < 0.05:
            self.screen = 2 * self.rng.integers(128, size=RAW).astype(np.uint8)  # a new scene
        for _ in range(self.rng.integers(4)):
            y, x, h, w = (int(self.rng.integers(high)) for high in (*RAW, 12, 12))
            self.screen[y : y + h, x : x + w] = 2 * self.rng.integers(128)

    def getScreen(self, out: np.ndarray) -> None:
        out[:] = self.screen

    @property
    def frame(self) -> np.ndarray:
        return palette().colours[self.screen]


class Scribble(Effect):
    """Draws something else every time."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def draw(self, frame, objects):
        y, x = self.rng.integers(RAW)
        frame[y : y + 5, x : x + 5] = self.rng.integers(256, size=3)


def whole(frames: np.ndarray, effects, size: int) -> tuple[np.ndarray, np.ndarray]:
    """What the picture must be: every step of it over all pixels."""
    drawn = np.maximum(frames[0], frames[1])
    for effect in effects:
        effect.draw(drawn, None)
    gray = cv2.cvtColor(drawn, cv2.COLOR_RGB2GRAY)
    return drawn, cv2.resize(gray, (size, size), interpolation=cv2.INTER_AREA)


@pytest.mark.parametrize("size", [84, 80, 64, 42, 96, 100, 105, 160, 168, 210, 250])
def test_changed_rows_make_the_whole_picture(size):
    rng = np.random.default_rng(size)
    console, desk = Console(rng), Desk()
    picture = Picture(size, desk)
    frames = palette().colours[np.zeros((2, *RAW), np.uint8)]
    effects: list[Scribble] = []
    twins: list[Scribble] = []
    for step in range(160):
        if step % 20 == 0:  # another variant, drawn or not
            effects, twins = ([Scribble()], [Scribble()]) if rng.random() < 0.6 else ([], [])
        for k in (0, 1):
            console.run()
            if rng.random() < 0.9:  # at a game's end a frame stays an older one
                picture.grab(k, console)
                frames[k] = console.frame
        if step % 37 == 0:
            picture.grab(0, console)
            picture.copy_first()
            frames[:] = console.frame
        picture.show(effects, None)
        drawn, small = whole(frames, twins, size)
        if step % 61 == 60:  # saved and restored
            saved = picture.frames(), picture.drawn(), picture.small
            picture = Picture(size, desk)
            picture.load(*saved)
        np.testing.assert_array_equal(picture.frames(), frames)
        np.testing.assert_array_equal(picture.drawn(), drawn)
        np.testing.assert_array_equal(picture.small, small)


def test_only_changed_rows_are_resized(monkeypatch):
    rows = []
    resize = cv2.resize

    def counting(part, *arguments, **options):
        rows.append(len(part))
        return resize(part, *arguments, **options)

    console, picture = Console(np.random.default_rng(0)), Picture(84, Desk())
    monkeypatch.setattr(cv2, "resize", counting)
    for y, x in ((0, 0), (100, 80), (100, 80), (102, 81)):
        console.screen[y : y + 4, x : x + 2] = 50
        for k in (0, 1):
            picture.grab(k, console)
        picture.show([], None)
    assert rows == [210, 5, 10]


def test_the_palette_is_the_consoles_own():
    assert len(np.unique(palette().colours[::2], axis=0)) == 128
    assert palette().colours[[0, 14]].tolist() == [[0, 0, 0], [236, 236, 236]]


def test_the_usual_size_is_cut_into_bands():
    assert bands(84) == 42  # 5 raw rows make 2
    assert bands(100) == 1  # 2.1 raw rows a row: OpenCV's positions are rounded


@pytest.mark.parametrize("size", [84, 64, 160])
def test_noise_resized_in_bands_is_bit_equal(size):
    """Random pixels: every rounding of OpenCV's sums shows."""
    rng = np.random.default_rng(0)
    count = bands(size)
    raw, out = RAW[0] // count, size // count
    for _ in range(150):
        gray = rng.integers(256, size=RAW).astype(np.uint8)
        expected = cv2.resize(gray, (size, size), interpolation=cv2.INTER_AREA)
        start = int(rng.integers(count))
        stop = int(rng.integers(start, count)) + 1
        part = gray[start * raw : stop * raw]
        shape = (size, (stop - start) * out)
        got = cv2.resize(part, shape, interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(got, expected[start * out : stop * out])


@pytest.mark.parametrize(
    ("game", "variant"),
    [
        ("breakout", "strobing_bricks"),
        ("breakout", "noise+green_lines"),
        ("pong", "moving_square"),
        ("asteroids", "original"),
        ("seaquest", "original"),
        ("enduro", "original"),
        ("pooyan", "background_blue+moving_square"),
        ("pacman", "noise+green_lines"),
        ("air_raid", "original"),
    ],
)
def test_real_games_look_as_the_console_shows_them(game, variant):
    env = make_vec_env(find(variant, game=game), n_envs=1, seed=1, game=game)
    emulator = env._block.emulators[0]
    grab, frames = emulator.picture.grab, np.zeros((2, *console(game).raw, 3), np.uint8)

    def both(k, ale):
        grab(k, ale)
        ale.getScreenRGB(frames[k])

    emulator.picture.grab = both
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(300):
        observations = env.step(rng.integers(len(env.action_meanings), size=1))[0]
        np.testing.assert_array_equal(emulator.picture.frames(), frames)
        if not emulator._draws:
            np.testing.assert_array_equal(observations[0, -1], whole(frames, [], 84)[1])
        gray = cv2.cvtColor(env.frames()[0], cv2.COLOR_RGB2GRAY)
        small = cv2.resize(gray, (84, 84), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(observations[0, -1], small)
