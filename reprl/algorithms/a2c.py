"""A2C: SB3's, with the shared update and the extras."""

from __future__ import annotations

from typing import ClassVar, Self

import stable_baselines3
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback

from reprl.algorithms.objectives import PolicyGradient
from reprl.algorithms.on_policy import Agent


class A2C(Agent, stable_baselines3.A2C):
    """Advantage actor-critic; without extras in plain mode it is SB3's, bit for bit."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = stable_baselines3.A2C
    policy_loss_name: ClassVar[str] = "policy_loss"
    looks: ClassVar[int] = 50

    def _objective(self) -> PolicyGradient:
        return PolicyGradient(self.normalize_advantage)

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 100,
        tb_log_name: str = "A2C",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        self._learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
        return self
