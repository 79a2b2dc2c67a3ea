"""Noise on continuous actions: SB3's, of a size that follows a schedule and nears a goal.

policy's action -> **+ noise** -> environment. Its size is `sigma` (a number or a schedule), times
how far the scores still are from the goal. It draws from numpy's global generator, as SB3's does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from stable_baselines3.common.noise import (
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)

KINDS: dict[str, type[NormalActionNoise | OrnsteinUhlenbeckActionNoise]] = {
    "normal": NormalActionNoise,
    "ou": OrnsteinUhlenbeckActionNoise,
}


class ExplorationNoise(VectorizedActionNoise):
    """One process of noise for each environment, all of one size that can be changed."""

    def __init__(self, kind: str, width: int, n_envs: int) -> None:
        zeros = np.zeros(width)
        super().__init__(KINDS[kind](zeros, np.ones(width)), n_envs)
        self.width = width

    def resize(self, sigma: float) -> None:
        """Draw from now on with this standard deviation, in units of an action from -1 to 1."""
        for noise in self.noises:
            noise._sigma = sigma * np.ones(self.width)  # type: ignore[attr-defined]

    def state(self) -> np.ndarray:
        """Where the processes stand, (n_envs, width); zeros for noise without memory."""
        none = np.zeros(self.width)
        return np.stack([getattr(noise, "noise_prev", none) for noise in self.noises])

    def load_state(self, state: np.ndarray) -> None:
        for noise, previous in zip(self.noises, state, strict=True):
            if hasattr(noise, "noise_prev"):
                noise.noise_prev = previous.copy()


def nearness_scale(
    scores: Sequence[float], goal: Sequence[float] | None, least: float = 0.0
) -> float:
    """What share of the noise is left: 1 at a mean score of goal[0], `least` from goal[1] on."""
    if goal is None or not scores:
        return 1.0
    far, near = goal
    left = (near - float(np.mean(scores))) / (near - far)
    return float(np.clip(left, least, 1.0))
