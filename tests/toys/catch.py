"""The toy game in milliseconds: a catching game in numpy, whose state can be saved."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from reprl.encoders.convolutional import ConvEncoder

SIZE, STEP, PADDLE, BALL = 36, 6, 12, 6
BOTTOM = SIZE - BALL  # the paddle's row
ACTIONS = ("NOOP", "RIGHT", "LEFT")


class Catch(VecEnv):
    """A ball falls straight down, a paddle moves below it: +1 for a catch, -1 for a miss.

    Observations are uint8 (n_envs, stack, 36, 36), newest frame last; an episode is 3 or 4 steps.
    Every third one of an environment is cut by a time limit, one step before its end, unless
    `cut` is False.
    """

    action_meanings = ACTIONS

    def __init__(self, n_envs: int = 4, seed: int = 0, *, stack: int = 4, cut: bool = True) -> None:
        space = spaces.Box(0, 255, (stack, SIZE, SIZE), np.uint8)
        super().__init__(n_envs, space, spaces.Discrete(len(ACTIONS)))
        self.cut = cut
        self.ball = np.zeros((n_envs, 2), np.int64)  # row, column
        self.paddle = np.zeros(n_envs, np.int64)
        self.games = np.zeros(n_envs, np.int64)
        self.stack = np.zeros((n_envs, stack, SIZE, SIZE), np.uint8)
        self.seed(seed)

    def seed(self, seed: int | None = None) -> list[int | None]:
        first = 0 if seed is None else seed
        self.rngs = [np.random.default_rng(first + i) for i in range(self.num_envs)]
        return [seed] * self.num_envs

    def _start(self, i: int) -> None:
        rng = self.rngs[i]
        column, height = STEP * int(rng.integers(SIZE // STEP)), STEP * int(rng.integers(1, 3))
        self.ball[i] = (height, column)
        self.paddle[i] = STEP * int(rng.integers((SIZE - PADDLE) // STEP + 1))
        self.games[i] += 1
        self.stack[i] = 0
        self._draw(i)

    def _draw(self, i: int) -> None:
        self.stack[i, :-1] = self.stack[i, 1:]
        newest, (row, column) = self.stack[i, -1], self.ball[i]
        newest[:] = 0
        newest[BOTTOM:, self.paddle[i] : self.paddle[i] + PADDLE] = 128
        newest[row : row + BALL, column : column + BALL] = 255

    def reset(self) -> np.ndarray:
        for i in range(self.num_envs):
            self._start(i)
        return self.stack.copy()

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        rewards = np.zeros(self.num_envs, np.float32)
        dones = np.zeros(self.num_envs, bool)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i, action in enumerate(self.actions):
            moved = self.paddle[i] + (0, STEP, -STEP)[int(action)]
            self.paddle[i] = np.clip(moved, 0, SIZE - PADDLE)
            self.ball[i, 0] += STEP
            self._draw(i)
            landed = self.ball[i, 0] >= BOTTOM
            cut = self.cut and self.games[i] % 3 == 0 and self.ball[i, 0] + STEP >= BOTTOM
            if landed:
                caught = self.paddle[i] <= self.ball[i, 1] < self.paddle[i] + PADDLE
                rewards[i] = 1.0 if caught else -1.0
            if landed or cut:
                dones[i] = True
                infos[i] = {
                    "terminal_observation": self.stack[i].copy(),
                    "TimeLimit.truncated": bool(cut and not landed),
                    "episode": {"r": float(rewards[i]), "l": 3, "t": perf_counter()},
                }
                self._start(i)
        return self.stack.copy(), rewards, dones, infos

    def snapshot(self) -> bytes:
        arrays = {k: getattr(self, k).tolist() for k in ("ball", "paddle", "games", "stack")}
        return json.dumps(arrays | {"rngs": [g.bit_generator.state for g in self.rngs]}).encode()

    def restore(self, data: bytes) -> None:
        state = json.loads(data)
        for rng, kept in zip(self.rngs, state.pop("rngs"), strict=True):
            rng.bit_generator.state = kept
        for name, value in state.items():
            setattr(self, name, np.array(value, getattr(self, name).dtype))

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


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


SMALL_ENCODER = {"_target_": f"{__name__}.SmallEncoder"}


def score(model: Any, *, episodes: int = 200, seed: int = 1000) -> float:
    """Mean reward of a model that plays greedily; None plays at random."""
    env = Catch(20, seed, stack=2, cut=False)
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
