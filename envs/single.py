"""One game as a gymnasium environment: `gymnasium.make("reprl/Breakout-v0", variant="diagonals")`.

variant -> emulator -> **gymnasium.Env**: the game, the pictures and the seeds of `make_vec_env`,
one step at a time, for loops, wrappers and libraries that take any gymnasium environment.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import EzPickle

from reprl.envs.checks import checked_settings, require_actions
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.emulator import Emulator
from reprl.envs.games import game as game_of
from reprl.envs.machine import FPS, console
from reprl.envs.observation import observation_space
from reprl.envs.picture import Desk
from reprl.envs.protocol import VariantSpec
from reprl.envs.variation import find
from reprl.errors import UserError
from reprl.settings import SEED


class GameEnv(gymnasium.Env, EzPickle):
    """Full games with raw scores, or with `training=True` a life an episode and clipped rewards.

    Observations are uint8 (stack, size, size), oldest frame first. An info has `lives`,
    `raw_reward` and, where the game's truth is known, `objects`; at a game's end also its `score`,
    its `frames` and its `game_seed`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012  # as gymnasium declares it

    def __init__(
        self,
        game: str = DEFAULT_GAME,
        variant: VariantSpec = CLEAN,
        *,
        severity: float | None = None,
        training: bool = False,
        render_mode: str | None = None,
        sticky: float = 0.0,
        stack: int = 4,
        gap: int = 1,
        size: int = 84,
        noop_max: int = 30,
        max_frames: int = 108_000,
        reward: str | float | None = None,
        background: float | str | None = None,
        observation: str = "frames",
        missed: float = 0.0,
        mislabelled: float = 0.0,
        shifted: int = 0,
        gray: bool = True,
        skip: int = 4,
    ) -> None:
        EzPickle.__init__(**{k: v for k, v in locals().items() if k != "__class__"})
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode={render_mode!r} is unknown: choose from rgb_array, None.")
        self.render_mode = render_mode
        settings = checked_settings(
            game=game,
            training=training,
            reward=reward,
            sticky=sticky,
            stack=stack,
            gap=gap,
            size=size,
            noop_max=noop_max,
            max_frames=max_frames,
            background=background,
            observation=observation,
            missed=missed,
            mislabelled=mislabelled,
            shifted=shifted,
            gray=gray,
            skip=skip,
        )
        self.game = game_of(settings.game)
        self.variant = find(variant, severity, settings.game)
        desk = Desk(console(self.game.cartridge).raw)
        self.emulator = Emulator(settings, self.variant, 0, 0, desk)
        self.action_meanings = list(console(self.game.cartridge).actions)
        self.observation_space = observation_space(settings)
        self.action_space = spaces.Discrete(len(self.action_meanings))
        self._playing: bool | None = None  # None before the first reset, False at an episode's end

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a game; the games of a seed are those that `make_vec_env(seed=...)` plays first."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.emulator.reseed(SEED.checked("seed", seed))
        elif self._playing is None:
            self.emulator.reseed(int(self.np_random.integers(int(SEED.high))))
        if self._playing is False and seed is None:
            self.emulator.proceed()
        else:
            self.emulator.reset()
        self._playing = True
        info = {"lives": self.emulator.ale.lives(), "raw_reward": 0.0}
        return self.emulator.observation.copy(), self._told(info)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one action for four frames of the console."""
        if not self._playing:
            raise ResetNeeded("the game is over, or has not begun: call reset() first.")
        require_actions(np.atleast_1d(np.asarray(action)), 1, self.action_meanings)
        reward, done, info = self.emulator.play(int(action))
        truncated = bool(info.pop("TimeLimit.truncated"))
        if (ended := info.pop("episode", None)) is not None:
            info |= {"score": ended["r"], "frames": ended["l"]}
        self._playing = not done
        observation = self.emulator.observation.copy()
        return observation, float(reward), done and not truncated, truncated, self._told(info)

    def render(self) -> np.ndarray | None:
        """The drawn picture at the console's size, (height, width, 3) uint8."""
        return self.emulator.frame() if self.render_mode == "rgb_array" else None

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        return info | {"objects": self.emulator.objects()} if self.game.has_truth else info
