"""A game that is learned in a few hundred steps, as an environment of gymnasium: Echo-v0."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

PLACES, STEPS = 4, 10


class Echo(gym.Env[np.ndarray, int]):
    """A lamp of several is lit: +1 for the action of its number, ten times a game."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (PLACES,), np.float32)
        self.action_space = spaces.Discrete(PLACES)
        self.lit = self.steps = 0

    def _seen(self) -> np.ndarray:
        self.lit = int(self.np_random.integers(PLACES))
        return np.eye(PLACES, dtype=np.float32)[self.lit]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.lit)
        self.steps += 1
        return self._seen(), reward, False, self.steps >= STEPS, {}


gym.register("Echo-v0", entry_point=Echo)
