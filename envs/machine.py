"""What a game is set to, and the console as a variant's effects may touch it."""

from __future__ import annotations

from dataclasses import dataclass

import ale_py
import numpy as np


@dataclass(frozen=True)
class Settings:
    """What all environments of one vector share; plain data, so that it travels to workers."""

    game: str
    training: bool
    reward: str | float  # "clip", "raw" or a factor
    sticky: float
    stack: int
    gap: int
    size: int
    noop_max: int
    max_frames: int


class Machine:
    """The emulator as a variant's effects see it."""

    def __init__(self, ale: ale_py.ALEInterface) -> None:
        self._ale = ale
        self._ram = np.zeros(128, np.uint8)
        self.frame = 0  # frames since the game began

    @property
    def ram(self) -> np.ndarray:
        """The 128 bytes now; a buffer that the next read overwrites."""
        self._ale.getRAM(self._ram)
        return self._ram

    def write(self, index: int, value: int) -> None:
        """Set one byte of the game's memory."""
        self._ale.setRAM(index, int(value) & 0xFF)
