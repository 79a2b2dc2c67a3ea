"""A2C: SB3's, with the shared update and the extras."""

from __future__ import annotations

from typing import ClassVar

import stable_baselines3
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from reprl.algorithms.agent import Agent
from reprl.algorithms.objectives import PolicyGradient


class A2C(Agent, stable_baselines3.A2C):
    """Advantage actor-critic; without extras in plain mode it is SB3's, bit for bit."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = stable_baselines3.A2C
    policy_loss_name: ClassVar[str] = "policy_loss"

    def _objective(self) -> PolicyGradient:
        return PolicyGradient(self.normalize_advantage)
