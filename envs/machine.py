"""What a game is set to, what its console has, and the console as a variant's effects see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ale_py
import numpy as np
from ale_py import roms

from reprl.envs.defaults import LATER

SKIP = 4  # emulator frames an action lasts, unless it is said otherwise
FPS = 60 // SKIP  # agent steps in a second of the console's own time


@dataclass(frozen=True)
class EnvSettings:
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
    background: float | str | None = None  # gray levels a step of a slow memory, or adaptive
    observation: str = "frames"  # or what is shown of the true objects
    missed: float = 0.0  # noise on these: probabilities, and pixels of the console
    mislabelled: float = 0.0
    shifted: int = 0
    gray: bool = True  # otherwise a frame has three channels
    skip: int = 4  # frames an action lasts
    levels: int = 200  # of Procgen: how many are for training, 0 is all,
    start_level: int = 0  # the first of them
    distribution: str = "easy"  # and how hard they are
    continuous: bool = False  # actions are the radius, angle and fire of a stick
    shaping: Mapping[str, Any] | None = None  # a spec: what training makes of rewards


# What an environment must share with training for an agent to see the same.
OBSERVED = ("game", "stack", "gap", "size", *LATER)


@dataclass(frozen=True)
class Console:
    """What a game's cartridge decides."""

    raw: tuple[int, int]  # height, width of the picture
    actions: tuple[str, ...]  # the meanings of the minimal set, in order


@cache
def games() -> tuple[str, ...]:
    """Every game there is, but those ALE has for several players only: it ends the process."""
    paths = {name: roms.get_rom_path(name) for name in roms.get_all_rom_ids()}
    supported = ale_py.ALEInterface.isSupportedROM
    return tuple(name for name, path in paths.items() if path is not None and supported(path))


@cache
def console(game: str) -> Console:
    """Ask a game's cartridge what it has."""
    ale = emulator(game)
    height, width = ale.getScreenDims()
    return Console((height, width), tuple(a.name for a in ale.getMinimalActionSet()))


def emulator(game: str, **whole: int) -> ale_py.ALEInterface:
    """An emulator of a game in `games()`, without chance of its own, with these settings."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # before the banner is printed
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    for name, value in whole.items():
        ale.setInt(name, value)
    rom = roms.get_rom_path(game)
    assert rom is not None
    ale.loadROM(rom)
    return ale


class AleMachine:
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
