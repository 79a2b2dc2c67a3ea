"""The toy game as an environment of gymnasium, for what plays in other processes: Catch-v0."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from catch import ACTIONS, SIZE, Catch  # beside this file, which is on the path where it is used
from gymnasium import spaces

STACK = 4


class OneCatch(gym.Env[np.ndarray, int]):
    """One game of Catch; pictures are uint8 (36, 36, 4), the newest frame last."""

    def __init__(self) -> None:
        self.game = Catch(1, stack=STACK, cut=False)
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, STACK), np.uint8)
        self.action_space = spaces.Discrete(len(ACTIONS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        return self.game.reset()[0].transpose(1, 2, 0), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        seen, rewards, dones, infos = self.game.step(np.array([action]))
        last = infos[0]["terminal_observation"] if dones[0] else seen[0]
        return last.transpose(1, 2, 0), float(rewards[0]), bool(dones[0]), False, {}


gym.register("Catch-v0", entry_point=OneCatch)
