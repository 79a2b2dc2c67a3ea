"""A bare Breakout console for the tests: ALE itself, and a player that follows the ball's RAM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

NOOP, FIRE, RIGHT, LEFT = 0, 1, 3, 4  # ALE's numbers, not positions in the minimal action set


class Console:
    """ALE with the `Machine` interface of the variants and a hook before each frame."""

    def __init__(self, game: str = "breakout", seed: int = 1, difficulty: int = 0) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(game))
        self.ale.setDifficulty(difficulty)
        self.effects: list = []
        self.reset()

    def reset(self, effects: list | None = None, seed: int = 0) -> None:
        self.effects = effects or []
        for i, effect in enumerate(self.effects):
            effect.reset(np.random.default_rng([seed, i]))
        self.ale.reset_game()
        self.frame = 0

    @property
    def ram(self) -> np.ndarray:
        return self.ale.getRAM()

    def write(self, index: int, value: int) -> None:
        self.ale.setRAM(index, value)

    def act(self, action: int) -> float:
        for effect in self.effects:
            effect.before_frame(self)
        self.frame += 1
        return self.ale.act(action)

    def screen(self) -> np.ndarray:
        return self.ale.getScreenRGB()

    def drawn(self) -> np.ndarray:
        picture = self.screen().copy()
        for effect in self.effects:
            effect.draw(picture, None)
        return picture


def follow(ram: np.ndarray, aim: int = 0) -> int:
    """Keep the paddle's middle `aim` pixels left of the ball; serve when there is none."""
    if ram[101] == 0:
        return FIRE
    error = (int(ram[99]) - 48) - (int(ram[72]) - 47 + int(ram[108])) + aim
    return RIGHT if error > 2 else LEFT if error < -2 else NOOP


def frames(console: Console, count: int, rng: np.random.Generator) -> Iterator[int]:
    """Play `count` frames, aiming anew whenever the ball turns; yields the frame's number."""
    aim, last = 0, 0
    for i in range(count):
        if console.ale.game_over():
            console.reset(console.effects)
        ram = console.ram
        if int(ram[101]) < last - 1:
            aim = int(rng.integers(-6, 7))
        last = int(ram[101])
        console.act(follow(ram, aim))
        yield i
