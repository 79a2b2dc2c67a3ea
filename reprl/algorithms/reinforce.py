"""REINFORCE: the policy gradient of whole games, with the value head as baseline or without.

rollout -> **returns of the games that ended in it** -> A2C's update. Nothing is bootstrapped: a
step whose game is still going on has no return yet and moves nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reprl.algorithms.a2c import A2C
from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.algorithms.update import Term
from reprl.errors import UserError
from reprl.intrinsic.base import IntrinsicReward
from reprl.policy import PolicyOutput
from reprl.settings import CLASSES
from reprl.validation import checker, flag


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
    ended: np.ndarray  # (T, n_envs) bool: steps whose game ended in the rollout

    def finish(
        self, observations: np.ndarray, starts: np.ndarray, rewards: np.ndarray | None = None
    ) -> None:
        super().finish(observations, starts, rewards)
        assert rewards is not None
        returns, self.ended = finished_returns(rewards, self.episode_starts, starts, self.gamma)
        self.returns = np.where(self.ended, returns, self.values).astype(np.float32)
        self._weigh(self._surplus(self.returns, self.values))

    def explore(
        self, rewards: np.ndarray, values: np.ndarray, last: np.ndarray, paid: IntrinsicReward
    ) -> np.ndarray:
        """As the game's rewards are taken: whole returns to the ends of games, no bootstrap."""
        assert self.last_starts is not None
        starts, after = self.episode_starts, self.last_starts
        returns, _ = finished_returns(rewards, starts, after, paid.gamma)
        if paid.coef:
            own = (paid.coef * self._surplus(returns, values)).astype(np.float32)
            self._weigh(self._surplus(self.returns, self.values) + own)
        return np.where(self.ended, returns, values).astype(np.float32)

    def _surplus(self, returns: np.ndarray, values: np.ndarray) -> np.ndarray:
        return returns - values if self.baseline else returns

    def _weigh(self, advantages: np.ndarray) -> None:
        """Set the advantages (T, n_envs), of finished games alone."""
        ended = self.ended
        if self.normalize and ended.sum() > 1:
            known = advantages[ended]
            advantages = (advantages - known.mean()) / (known.std() + 1e-8)
        # The update takes means over the whole rollout: those of finished games are meant.
        share = max(float(ended.mean()), 1e-8)
        self.advantages = np.where(ended, advantages / share, 0.0).astype(np.float32)


class Reinforce(A2C):
    """Williams' REINFORCE; `baseline` subtracts what the value head expects of a state.

    Without it the bare return is the gradient's weight: `normalize_advantage`, which subtracts the
    rollout's mean and so is a baseline too, is None, on with the baseline and off without.
    """

    rollout_buffer: EpisodeMemory

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        baseline: bool = True,
        normalize_advantage: bool | None = None,
        **kwargs: Any,
    ) -> None:
        self.baseline = flag("baseline", baseline)
        asked = checker(CLASSES["Reinforce"])("normalize_advantage", normalize_advantage)
        self.normalize_returns: bool = self.baseline if asked is None else asked
        if kwargs.get("mode", "plain") != "plain":
            raise UserError("algo=reinforce has no fast mode: set mode=plain.")
        super().__init__(policy, env, **kwargs)

    def _begin_update(self) -> None:
        super()._begin_update()
        if not self.baseline:
            self.vf_coef = 0.0

    def _curious_terms(self, output: PolicyOutput, minibatch: Minibatch) -> dict[str, Term]:
        if self.baseline:
            return super()._curious_terms(output, minibatch)
        assert self.curiosity is not None
        return self.curiosity.model_terms(minibatch, self.rollout_buffer, self.policy)

    def _memory(self) -> dict[str, Any]:
        return {"rollout_buffer_class": EpisodeMemory}

    def _setup_model(self) -> None:
        super()._setup_model()
        self.rollout_buffer.baseline = self.baseline
        self.rollout_buffer.normalize = self.normalize_returns
