"""DQN: SB3's, with the configuration's encoder, `double` targets, exact resume and evaluation.

rollout of `train_freq` steps -> replay buffer -> Q-learning. Without `double` every bit is SB3's.
The replay buffer is `reprl.algorithms.replay_buffer`, whose samples are SB3's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import nn
from torch.nn import functional as F

from reprl.algorithms.base import Algorithm
from reprl.algorithms.off_policy import OffPolicy
from reprl.policy import GreedyPlayer, Player
from reprl.validation import flag


class DQN(OffPolicy, stable_baselines3.DQN):
    """Deep Q-learning from a replay buffer; `double` lets the online network choose (2016)."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DQN
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "exploration_rate", "_n_calls")

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        double: bool = False,
        **kwargs: Any,
    ) -> None:
        self.double = flag("double", double)
        super().__init__(policy, env, **kwargs)

    # -- the seam ---------------------------------------------------------------------------------

    def player(self) -> Player:
        return GreedyPlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"double": self.double}

    # -- learning ---------------------------------------------------------------------------------

    def _update(self, gradient_steps: int, batch_size: int) -> None:
        """SB3's update, or with `double` the same with van Hasselt's targets."""
        if self.double:
            self._train_double(gradient_steps, batch_size)
        else:
            super()._update(gradient_steps, batch_size)

    def _train_double(self, gradient_steps: int, batch_size: int) -> None:
        assert self.replay_buffer is not None
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            discounts = self.gamma if batch.discounts is None else batch.discounts
            with torch.no_grad():
                best = self.q_net(batch.next_observations).argmax(1, keepdim=True)  # (B, 1)
                following = self.q_net_target(batch.next_observations).gather(1, best)
                targets = batch.rewards + (1 - batch.dones) * discounts * following
            values = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = F.smooth_l1_loss(values, targets)
            losses.append(loss.item())
            self.policy.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", float(np.mean(losses)))
