"""QR-DQN: sb3-contrib's distributional Q-learning, with the configuration's encoder and mask.

rollout -> replay buffer -> quantiles of the return of each action; the best mean is played.
"""

from __future__ import annotations

from typing import Any, ClassVar

import sb3_contrib
from stable_baselines3.common.base_class import BaseAlgorithm

from reprl.algorithms.base import Algorithm
from reprl.algorithms.off_policy import OffPolicy
from reprl.policy import Player, QuantilePlayer
from reprl.settings import CLASSES
from reprl.validation import checker


class QRDQN(OffPolicy, sb3_contrib.QRDQN):
    """Quantile regression DQN (Dabney et al. 2018); every bit is sb3-contrib's."""

    stock: ClassVar[type[BaseAlgorithm]] = sb3_contrib.QRDQN
    extras: ClassVar[tuple[str, ...]] = ("attention",)
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "exploration_rate", "_n_calls")

    def __init__(self, policy: Any, env: Any, *, n_quantiles: int = 200, **kwargs: Any) -> None:
        self.quantiles = int(checker(CLASSES["QRDQN"])("n_quantiles", n_quantiles))
        super().__init__(policy, env, **kwargs)

    def _policy_arguments(self, given: dict[str, Any] | None) -> dict[str, Any]:
        arguments = dict(super()._policy_arguments(given) or {})
        return {"n_quantiles": self.quantiles, **arguments}

    def player(self) -> Player:
        return QuantilePlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"n_quantiles": self.quantiles}
