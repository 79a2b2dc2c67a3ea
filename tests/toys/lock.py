"""A combination lock: a game without reward whose depth only somebody who looks for it sees."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

DEPTH, ACTIONS, STEPS = 24, 3, 40


class Lock(gym.Env[np.ndarray, int]):
    """Each place has one action that leads on; any other leads back to the first place.

    `visited` counts the visits of each place.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (DEPTH,), np.float32)
        self.action_space = spaces.Discrete(ACTIONS)
        self.visited = np.zeros(DEPTH, np.int64)
        self.place = self.steps = 0

    def _seen(self) -> np.ndarray:
        self.visited[self.place] += 1
        return np.eye(DEPTH, dtype=np.float32)[self.place]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        self.place = self.steps = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        on = int(action) == self.place * 7 % ACTIONS
        self.place = min(self.place + 1, DEPTH - 1) if on else 0
        self.steps += 1
        return self._seen(), 0.0, False, self.steps >= STEPS, {}
