"""QR-DQN: sb3-contrib's distributional Q-learning, with the configuration's encoder and mask.

rollout -> replay buffer -> quantiles of the return of each action, auxiliary losses and
augmentation on the same minibatch; the best mean is played. Without extras every bit is
sb3-contrib's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import sb3_contrib
import torch
from sb3_contrib.common.utils import quantile_huber_loss
from sb3_contrib.qrdqn.policies import QuantileNetwork
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn
from torch.profiler import record_function

from reprl.algorithms.off_policy import OffPolicy
from reprl.augmentation.base import View
from reprl.policy import Player, QuantilePlayer, q_forward
from reprl.settings import CLASSES
from reprl.validation import checker


class QRDQN(OffPolicy, sb3_contrib.QRDQN):
    """Quantile regression DQN (Dabney et al. 2018)."""

    stock: ClassVar[type[BaseAlgorithm]] = sb3_contrib.QRDQN
    network: ClassVar[type[nn.Module]] = QuantileNetwork
    counters: ClassVar[tuple[str, ...]] = (*OffPolicy.counters, "exploration_rate", "_n_calls")

    def __init__(self, policy: Any, env: Any, *, n_quantiles: int = 200, **kwargs: Any) -> None:
        self.quantiles = int(checker(CLASSES["QRDQN"])("n_quantiles", n_quantiles))
        super().__init__(policy, env, **kwargs)

    def _policy_arguments(self, given: dict[str, Any] | None) -> dict[str, Any]:
        arguments = dict(super()._policy_arguments(given) or {})
        return {"n_quantiles": self.quantiles, **arguments}

    def _learned(self) -> list[tuple[Any, torch.optim.Optimizer]]:
        return [(self.policy.quantile_net, self.policy.optimizer)]

    # -- the seam ---------------------------------------------------------------------------------

    def player(self) -> Player:
        return QuantilePlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"n_quantiles": self.quantiles}

    # -- learning ---------------------------------------------------------------------------------

    def _gradient_step(self, batch_size: int, number: int) -> dict[str, float]:
        drawn, batch = self._sample(batch_size)
        with record_function("update.losses"):
            view = self.losses.view(batch.observations)
            actions = self._actions(batch, view)
            targets = self._targets(batch)  # (B, quantiles)
            output = q_forward(self.quantile_net, view.observations)
            loss = self._loss(output.features, actions, targets)
            found = {"train/loss": loss.item()}

            def q_loss(features: Tensor, seen: View) -> Tensor:
                return self._loss(features, self._actions(batch, seen), targets)

            loss, terms = self._with_losses(loss, output, view, actions, batch, drawn, q_loss)
        self._step(loss, self.max_grad_norm)
        return found | terms

    def _loss(self, features: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        """The quantile loss of features (B, F) and the actions (B,) played there."""
        quantiles = self.quantile_net.quantile_net(features)
        quantiles = quantiles.view(len(actions), self.n_quantiles, -1)
        return quantile_huber_loss(_of_actions(quantiles, actions), targets)

    def _greedy(self, observations: Tensor) -> tuple[Tensor, Tensor | None]:
        values, actions = self.quantile_net(observations).mean(1).max(1)
        return values, actions

    @torch.no_grad()
    def _targets(self, batch: ReplayBufferSamples) -> Tensor:
        """Rewards and what the target network expects beyond them, (B, quantiles)."""
        discounts = self.gamma if batch.discounts is None else batch.discounts
        following = self.losses.view(batch.next_observations).observations
        quantiles = self.quantile_net_target(following)  # (B, quantiles, A)
        best = quantiles.mean(dim=1).argmax(dim=1)  # (B,)
        expected = _of_actions(quantiles, best)
        found: Tensor = batch.rewards + (1 - batch.dones) * discounts * expected
        return found


def _of_actions(quantiles: Tensor, actions: Tensor) -> Tensor:
    """Quantiles (B, quantiles) of one action (B,) each, of (B, quantiles, A)."""
    index = actions[:, None, None].expand(-1, quantiles.shape[1], 1)
    return quantiles.gather(2, index).squeeze(2)
