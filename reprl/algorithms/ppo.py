"""PPO: SB3's, with the shared update, encoders, auxiliary losses and augmentations.

rollout -> epochs of minibatches -> **clipped ratio, value error, entropy** -> one update.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import stable_baselines3
import torch
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from torch import Tensor
from torch.nn import functional as F

from reprl.algorithms.on_policy import OnPolicy
from reprl.algorithms.rollout_buffer import Minibatch
from reprl.algorithms.update import MinibatchLoss, Term, negative_entropy, normalized
from reprl.policy import PolicyOutput


class Proximal(OnPolicy):
    """The objective and the epochs of PPO, with a memory and without; mixed in before SB3's."""

    log_names: ClassVar[dict[str, str]] = OnPolicy.log_names | {"policy": "policy_gradient_loss"}
    looks: ClassVar[int] = 5
    explores: ClassVar[bool] = True
    n_epochs: int
    batch_size: Any  # SB3 and sb3-contrib disagree whether it may be None
    normalize_advantage: bool
    target_kl: float | None
    clip_range: Any
    clip_range_vf: Any

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        """The clipped likelihood ratio, the entropy, and the value error, clipped if asked."""
        loss = self.policy_terms(output, actions, minibatch)
        return MinibatchLoss(loss.terms | self.value_terms(output, minibatch), loss.metrics)

    def policy_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        """The terms that move the policy: the clipped likelihood ratio and the entropy."""
        advantages = self.advantages(minibatch)
        log_prob = output.log_prob(actions)
        log_ratio = log_prob - minibatch.old_log_prob
        ratio = torch.exp(log_ratio)
        clipped = torch.clamp(ratio, 1 - self._clip, 1 + self._clip)
        with torch.no_grad():
            # Schulman's low-variance estimate of the reverse KL.
            kl = torch.mean((ratio - 1) - log_ratio)
            clip_fraction = torch.mean((torch.abs(ratio - 1) > self._clip).float())
        policy = -torch.min(advantages * ratio, advantages * clipped).mean()
        return MinibatchLoss(
            {
                "policy": Term(policy, self.actor_loss_coef),
                "entropy": Term(negative_entropy(output, log_prob), self.ent_coef),
            },
            {"kl": kl, "clip_fraction": clip_fraction},
        )

    def value_terms(self, output: PolicyOutput, minibatch: Minibatch) -> dict[str, Term]:
        """The term that fits the value to the returns."""
        values = output.values
        if self._clip_vf is not None:
            step = torch.clamp(values - minibatch.old_values, -self._clip_vf, self._clip_vf)
            values = minibatch.old_values + step
        return {"value": Term(self._value_error(minibatch.returns, values), self.vf_coef)}

    def advantages(self, minibatch: Minibatch) -> Tensor:
        """Advantages (B,) as the policy is trained on them, normalised if asked."""
        if not self.normalize_advantage:
            return minibatch.advantages
        return normalized(minibatch.advantages, self.update.reduction)

    def _value_error(self, returns: Tensor, values: Tensor) -> Tensor:
        return F.mse_loss(returns, values)

    def _begin_update(self) -> None:
        super()._begin_update()
        progress = self._current_progress_remaining
        self._clip: float = self.clip_range(progress)
        self.logger.record("train/clip_range", self._clip)
        self._clip_vf: float | None = None
        if self.clip_range_vf is not None:
            self._clip_vf = self.clip_range_vf(progress)
            self.logger.record("train/clip_range_vf", self._clip_vf)

    def _epochs(self) -> int:
        return self.n_epochs

    def _minibatch_size(self) -> int | None:
        return None if self.batch_size is None else int(self.batch_size) // self.shares

    def _target_kl(self) -> float | None:
        return self.target_kl

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "PPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        self._learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
        return self


class PPO(Proximal, stable_baselines3.PPO):
    """Proximal policy optimization; without extras in plain mode it is SB3's, bit for bit."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = stable_baselines3.PPO
