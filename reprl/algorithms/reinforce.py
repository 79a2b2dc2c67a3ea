"""REINFORCE: the policy gradient of whole games, with the value head as baseline or without.

rollout -> **returns of the games that ended in it** -> A2C's update. Nothing is bootstrapped: a
step whose game is still going on has no return yet and moves nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from reprl.algorithms.a2c import A2C
from reprl.algorithms.rollout_buffer import RolloutMemory
from reprl.errors import UserError
from reprl.validation import flag


def finished_returns(
    rewards: np.ndarray, starts: np.ndarray, last_starts: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Discounted returns (T, n) to the ends of games, and where the game ended in the rollout.

    `starts` (T, n) are True at a game's first step, `last_starts` (n,) after the rollout.
    """
    returns = np.zeros_like(rewards)
    ended = np.zeros(rewards.shape, bool)
    following, over = np.zeros(rewards.shape[1], rewards.dtype), np.zeros(rewards.shape[1], bool)
    for t in reversed(range(len(rewards))):
        ends = (last_starts if t + 1 == len(rewards) else starts[t + 1]).astype(bool)
        over = over | ends
        following = rewards[t] + gamma * following * ~ends
        returns[t], ended[t] = following, over
    return returns, ended


class EpisodeMemory(RolloutMemory):
    """A rollout whose advantages are those of whole games; unfinished ones weigh nothing."""

    baseline: bool = True
    normalize: bool = True

    def finish(
        self, observations: np.ndarray, starts: np.ndarray, rewards: np.ndarray | None = None
    ) -> None:
        super().finish(observations, starts, rewards)
        assert rewards is not None
        returns, ended = finished_returns(rewards, self.episode_starts, starts, self.gamma)
        advantages = returns - self.values if self.baseline else returns
        if self.normalize and ended.sum() > 1:
            known = advantages[ended]
            advantages = (advantages - known.mean()) / (known.std() + 1e-8)
        # The update takes means over the whole rollout: those of finished games are meant.
        share = max(float(ended.mean()), 1e-8)
        self.advantages = np.where(ended, advantages / share, 0.0).astype(np.float32)
        self.returns = np.where(ended, returns, self.values).astype(np.float32)


class Reinforce(A2C):
    """Williams' REINFORCE; `baseline` subtracts what the value head expects of a state."""

    rollout_buffer: EpisodeMemory
    explores: ClassVar[bool] = False  # a whole game's return has no end to look beyond

    def __init__(self, policy: Any, env: Any, *, baseline: bool = True, **kwargs: Any) -> None:
        self.baseline = flag("baseline", baseline)
        self.normalize_returns = flag(
            "normalize_advantage", kwargs.pop("normalize_advantage", True)
        )
        if kwargs.get("mode", "plain") != "plain":
            raise UserError("algo=reinforce has no fast mode: set mode=plain.")
        super().__init__(policy, env, **kwargs)

    def _begin_update(self) -> None:
        super()._begin_update()
        if not self.baseline:
            self.vf_coef = 0.0

    def _memory(self) -> dict[str, Any]:
        return {"rollout_buffer_class": EpisodeMemory}

    def _setup_model(self) -> None:
        super()._setup_model()
        self.rollout_buffer.baseline = self.baseline
        self.rollout_buffer.normalize = self.normalize_returns
