"""A stand-in for EnvPool's Procgen: the same calls and arrays, a level that its number decides.

The picture's red is the level, its green the step; an action of 7 scores a point. A level is over
after three points or 40 steps, and then shows the next game's first picture, as Procgen does.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

LONGEST, POINTS = 40, 3


class Pool:
    """One game of one level."""

    open = 0  # pools that nobody has closed

    def __init__(self, task: str, *, start_level: int, num_levels: int, **rest: Any) -> None:
        assert rest == {"num_envs": 1, "num_threads": 1, "seed": 0}
        assert num_levels == 1
        self.task, self.level = task, start_level
        Pool.open += 1

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        self.steps, self.score = 0, 0
        return self._picture(), {"level_seed": np.array([self.level])}

    def send(self, actions: np.ndarray) -> None:
        assert actions.dtype == np.int32
        assert actions.shape == (1,)
        self.sent = int(actions[0])

    def recv(self) -> tuple[Any, ...]:
        self.steps += 1
        reward = float(self.sent == 7)
        self.score += reward
        over, late = self.score == POINTS, self.steps == LONGEST
        if over or late:
            self.reset()
        flags = np.array([over and not late]), np.array([late])
        return self._picture(), np.array([reward], np.float32), *flags, {}

    def close(self) -> None:
        Pool.open -= 1

    def _picture(self) -> np.ndarray:
        seen = np.zeros((1, 3, 64, 64), np.uint8)
        seen[0, 0], seen[0, 1] = self.level % 256, self.steps
        return seen


def install(patch: pytest.MonkeyPatch) -> None:
    """Let `import envpool` find the stand-in."""
    from reprl.envs import procgen_levels

    envpool = ModuleType("envpool")
    envpool.make_gymnasium = Pool  # type: ignore[attr-defined]
    patch.setitem(__import__("sys").modules, "envpool", envpool)
    procgen: Any = SimpleNamespace(ProcgenEnvSpec=object)
    patch.setitem(__import__("sys").modules, "envpool.procgen", procgen)
    procgen_levels.require_envpool.cache_clear()
