"""What evaluation, twin evaluation and attention ask of a vector environment, and nothing more.

`AtariVecEnv` is one; whatever else plays games behind these names can be evaluated in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces

from reprl.envs.games.base import Game
from reprl.envs.machine import EnvSettings
from reprl.envs.objects import Objects
from reprl.envs.variation.base import Variant

VariantSpec = str | Mapping[str, Any] | Variant


@runtime_checkable
class GameVecEnv(Protocol):
    """n games at a time; a negative action leaves its environment untouched.

    An info has `lives`, `raw_reward` and `TimeLimit.truncated`; at a game's end also `episode`
    with its score `r` and its frames `l`. The next game begins by itself.
    """

    num_envs: int
    action_meanings: list[str]  # ALE's names, in order; none of continuous actions
    action_space: spaces.Space[Any]
    settings: EnvSettings
    game: Game

    def reset(self) -> np.ndarray:
        """Begin a game everywhere; observations (n, stack, size, size) uint8, newest frame last."""

    def step_async(self, actions: np.ndarray) -> None:
        """Start a step with actions (n,), or (n, width) where they are continuous."""

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Finish it: observations, rewards (n,), dones (n,), infos."""

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Both at once."""

    def observations(self) -> np.ndarray:
        """The current observations, the caller's own."""

    def objects(self) -> list[Objects]:
        """The truth of the last emulator frame; raises UserError in a game without."""

    def frames(self) -> np.ndarray:
        """The pictures of all environments as a person would see them, (n, height, width, 3)."""

    def frame(self, index: int) -> np.ndarray:
        """That of one environment, (height, width, 3)."""

    def queue(self, index: int, seed: int, variant: VariantSpec | None = None) -> None:
        """Make the next game of an environment this one; further calls line up behind."""

    def restart(self, index: int) -> np.ndarray:
        """Begin the next game of one environment now; its first observation."""

    def standing(self, index: int) -> tuple[float, int]:
        """The score and the frames of the game that an environment is playing."""

    def snapshot(self) -> bytes:
        """Everything needed to continue identically."""

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot."""

    def close(self) -> None:
        """Stop; safe to call twice."""
