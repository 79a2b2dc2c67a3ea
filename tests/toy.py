"""A catching game in milliseconds: the smallest task in which an agent must see to score."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor
from torch import nn

from reprl.encoders.convolutional import ConvEncoder

SIZE, STEP, PADDLE, BALL = 36, 6, 12, 6
BOTTOM = SIZE - BALL  # the paddle's row
ACTIONS = ("NOOP", "RIGHT", "LEFT")


class Catch(gym.Env[np.ndarray, int]):
    """A ball falls straight down, a paddle moves below it: +1 for a catch, -1 for a miss.

    Observations are uint8 (stack, 36, 36), newest frame last; an episode is 3 or 4 steps.
    """

    action_space: gym.Space[Any] = gym.spaces.Discrete(len(ACTIONS))

    def __init__(self, *, stack: int = 2) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (stack, SIZE, SIZE), np.uint8)
        self.frames = np.zeros((stack, SIZE, SIZE), np.uint8)
        self.ball, self.height, self.paddle = 0, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.ball = STEP * int(self.np_random.integers(SIZE // STEP))
        self.height = STEP * int(self.np_random.integers(1, 3))
        self.paddle = STEP * int(self.np_random.integers((SIZE - PADDLE) // STEP + 1))
        self.frames[:] = 0
        return self._draw(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        move = (0, STEP, -STEP)[int(action)]
        self.paddle = min(max(self.paddle + move, 0), SIZE - PADDLE)
        self.height += STEP
        landed = self.height >= BOTTOM
        caught = self.paddle <= self.ball < self.paddle + PADDLE
        reward = (1.0 if caught else -1.0) if landed else 0.0
        return self._draw(), reward, landed, False, {}

    def _draw(self) -> np.ndarray:
        self.frames[:-1] = self.frames[1:]
        newest = self.frames[-1]
        newest[:] = 0
        newest[BOTTOM:, self.paddle : self.paddle + PADDLE] = 128
        newest[self.height : self.height + BALL, self.ball : self.ball + BALL] = 255
        return self.frames.copy()


class SmallEncoder(ConvEncoder):
    """Two convolutions, a 5x5 map: an encoder for this game, as a user's own module adds one."""

    def __init__(self, observation_space: gym.Space[Any], *, attention: Any = None) -> None:
        assert observation_space.shape is not None
        trunk = nn.Sequential(
            nn.Conv2d(observation_space.shape[0], 16, 4, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        super().__init__(observation_space, trunk, features_dim=64, attention=attention)


def catch_env(n_envs: int = 16, *, seed: int = 0) -> VecEnv:
    """The game n_envs times, seeded and monitored."""
    env = VecMonitor(DummyVecEnv([Catch for _ in range(n_envs)]))
    env.seed(seed)
    return env


def score(model: Any, *, episodes: int = 200, seed: int = 1000) -> float:
    """Mean reward of a model that plays greedily; None plays at random."""
    env = catch_env(20, seed=seed)
    rng = np.random.default_rng(seed)
    observations, rewards = env.reset(), []
    while len(rewards) < episodes:
        if model is None:
            actions = rng.integers(len(ACTIONS), size=env.num_envs)
        else:
            actions, _ = model.predict(observations, deterministic=True)
        observations, reward, dones, _ = env.step(actions)
        rewards += reward[dones].tolist()
    return float(np.mean(rewards))
