"""A2C: SB3's, with the shared update, encoders, auxiliary losses and augmentations."""

from __future__ import annotations

from typing import ClassVar, Self

import stable_baselines3
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from torch import Tensor
from torch.nn import functional as F

from reprl.algorithms.on_policy import OnPolicy
from reprl.algorithms.rollout_buffer import Minibatch
from reprl.algorithms.update import MinibatchLoss, Term, negative_entropy, normalized
from reprl.policy import PolicyOutput


class A2C(OnPolicy, stable_baselines3.A2C):
    """Advantage actor-critic; without extras in plain mode it is SB3's, bit for bit."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = stable_baselines3.A2C
    looks: ClassVar[int] = 50
    explores: ClassVar[bool] = True

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        """Advantage times log-likelihood, the entropy, and the squared error of the value."""
        advantages = minibatch.advantages
        if self.normalize_advantage:
            advantages = normalized(advantages, self.update.reduction)
        log_prob = output.log_prob(actions)
        return MinibatchLoss(
            {
                "policy": Term(-(advantages * log_prob).mean(), self.actor_loss_coef),
                "entropy": Term(negative_entropy(output, log_prob), self.ent_coef),
                "value": Term(F.mse_loss(minibatch.returns, output.values), self.vf_coef),
            }
        )

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
