"""A vectorised picture game in numpy: a dot falls, a bar below moves; its state can be saved."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

SIZE, STACK, ACTIONS = 36, 4, ("NOOP", "RIGHT", "LEFT")


class Falling(VecEnv):
    """Catch the dot; every third episode of an environment is cut by a time limit."""

    action_meanings = ACTIONS

    def __init__(self, n_envs: int = 4, seed: int = 0) -> None:
        space = spaces.Box(0, 255, (STACK, SIZE, SIZE), np.uint8)
        super().__init__(n_envs, space, spaces.Discrete(len(ACTIONS)))
        self.rng = np.random.default_rng(seed)
        self.ball = np.zeros((n_envs, 2), np.int64)  # row, column
        self.bar = np.zeros(n_envs, np.int64)
        self.games = np.zeros(n_envs, np.int64)
        self.stack = np.zeros((n_envs, STACK, SIZE, SIZE), np.uint8)

    def _start(self, i: int) -> None:
        self.ball[i] = (int(self.rng.integers(0, 20)), int(self.rng.integers(0, SIZE - 3)))
        self.bar[i] = SIZE // 2
        self.games[i] += 1
        self.stack[i] = 0
        self._draw(i)

    def _draw(self, i: int) -> None:
        frame = np.zeros((SIZE, SIZE), np.uint8)
        row, column = self.ball[i]
        frame[row : row + 3, column : column + 3] = 255
        frame[SIZE - 2 :, self.bar[i] : self.bar[i] + 6] = 128
        self.stack[i] = np.concatenate([self.stack[i, 1:], frame[None]])

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
            self.bar[i] = np.clip(self.bar[i] + (0, 3, -3)[int(action)], 0, SIZE - 6)
            self.ball[i, 0] += 3
            self._draw(i)
            cut = self.games[i] % 3 == 0 and self.ball[i, 0] > 20
            landed = self.ball[i, 0] >= SIZE - 4
            if landed:
                rewards[i] = 1.0 if abs(self.bar[i] + 3 - self.ball[i, 1]) < 5 else -1.0
            if landed or cut:
                dones[i] = True
                infos[i] = {
                    "terminal_observation": self.stack[i].copy(),
                    "TimeLimit.truncated": bool(cut and not landed),
                    "episode": {"r": float(rewards[i]), "l": 5, "t": perf_counter()},
                }
                self._start(i)
        return self.stack.copy(), rewards, dones, infos

    def snapshot(self) -> bytes:
        arrays = {k: getattr(self, k).tolist() for k in ("ball", "bar", "games", "stack")}
        return json.dumps(arrays | {"rng": self.rng.bit_generator.state}).encode()

    def restore(self, data: bytes) -> None:
        state = json.loads(data)
        self.rng.bit_generator.state = state.pop("rng")
        for name, value in state.items():
            setattr(self, name, np.array(value, getattr(self, name).dtype))

    def seed(self, seed: int | None = None) -> list[int | None]:
        self.rng = np.random.default_rng(seed)
        return [seed] * self.num_envs

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
