"""Levels of Procgen, played by EnvPool's build of its games.

level -> **one picture a step** -> `GymVecEnv`. EnvPool cannot save a game, nor be told which level
comes next; but a level is decided by its number, so each game is a pool of that single level, and
its number and actions repeat it.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from reprl.envs.defaults import PROCGEN
from reprl.envs.machine import EnvSettings
from reprl.envs.observation import FrameStack
from reprl.envs.procgen_names import ACTIONS, SIZE, level_of
from reprl.envs.variation.base import Variant
from reprl.errors import UserError

ZOOM = 3  # a picture of 64 pixels as a person sees it
QT = (
    "Procgen needs the Qt 5 libraries, which this machine lacks: apt-get install libqt5gui5 "
    "(Debian, Ubuntu) or dnf install qt5-qtbase-gui (Fedora)."
)


@cache
def require_envpool() -> ModuleType:
    """EnvPool with Procgen's games, or the sentence that says how to get what is missing."""
    try:
        envpool = importlib.import_module("envpool")
    except ImportError as error:
        raise UserError("Procgen is played by EnvPool: pip install 'reprl[procgen]'.") from error
    try:
        importlib.import_module("envpool.procgen").ProcgenEnvSpec  # noqa: B018  # its library
    except ImportError as error:
        if "Qt" in str(error):
            raise UserError(QT) from error
        raise UserError(f"EnvPool's Procgen cannot be loaded: {error}") from error
    return envpool


class ProcgenLevel(gymnasium.Env[np.ndarray, int]):
    """One level at a time: the seed of a reset is the level's number."""

    observation_space = spaces.Box(0, 255, (3, SIZE, SIZE), np.uint8)
    action_space: spaces.Space[Any] = spaces.Discrete(len(ACTIONS))

    def __init__(self, game: str, distribution: str) -> None:
        self._task = f"{game.capitalize()}{distribution.capitalize()}-v0"
        self._pool: Any = None
        self._sent = False
        self._seen = np.zeros((3, SIZE, SIZE), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a level."""
        self.close()
        self._pool = require_envpool().make_gymnasium(
            self._task, num_envs=1, num_threads=1, num_levels=1, start_level=int(seed or 0), seed=0
        )
        self._seen = np.array(self._pool.reset()[0][0])
        return self._seen, {}

    def send(self, action: int) -> None:
        """Begin to play an action, beside those of other levels; `step` ends it."""
        self._pool.send(np.array([action], np.int32))
        self._sent = True

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play an action; a level that takes too long ends like any other, as in Procgen itself.

        Procgen shows no picture of the end: there it has begun the next game, so the last picture
        of this one is shown again.
        """
        if not self._sent:
            self.send(action)
        self._sent = False
        seen, rewards, terminated, truncated, _ = self._pool.recv()
        over = bool(terminated[0] or truncated[0])
        if not over:
            self._seen = np.array(seen[0])
        return self._seen, float(rewards[0]), over, False, {}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool, self._sent = None, False


class ProcgenSource:
    """The levels of one of Procgen's games, as `GymVecEnv` asks for them."""

    stream = "procgen"

    def __init__(self, settings: EnvSettings) -> None:
        require_envpool()
        self.settings = settings
        self.observation_space: spaces.Space[Any] = FrameStack((3, SIZE, SIZE), channels=3)
        self.action_space = ProcgenLevel.action_space
        self.action_names = list(ACTIONS)

    def make(self) -> ProcgenLevel:
        """One environment, not yet reset."""
        return ProcgenLevel(self.settings.game.removeprefix(PROCGEN), self.settings.distribution)

    def game_seed(self, seed: int, variant: Variant) -> int:
        """The level of a game's seed: one of training's, or an unseen one."""
        return level_of(self.settings, variant.family, seed)

    def shown(self, observation: np.ndarray) -> np.ndarray:
        """Pictures are as networks take them, (3, 64, 64)."""
        return observation

    def screen(self, shown: np.ndarray) -> np.ndarray:
        """The picture enlarged, (192, 192, 3)."""
        return shown.transpose(1, 2, 0).repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
