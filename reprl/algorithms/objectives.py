"""The two algorithms' own losses: what A2C and PPO make of an evaluated minibatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor
from torch.nn import functional as F

from reprl.algorithms.rollout_buffer import Minibatch
from reprl.encoders.base import Encoder, EncoderOutput, as_images


class Evaluation(NamedTuple):
    """The current policy's opinion of a minibatch."""

    values: Tensor  # (B,)
    log_prob: Tensor  # (B,) of the actions taken
    entropy: Tensor | None  # (B,), None where the distribution has no closed form
    output: EncoderOutput | None = None  # None for SB3's own feature extractors
    log_probs: Tensor | None = None  # (B, n_actions)


class ReinforcementLoss(NamedTuple):
    """The reinforcement learning terms before their coefficients."""

    policy: Tensor  # ()
    value: Tensor  # ()
    entropy: Tensor  # (), the negative mean entropy
    kl: Tensor | None = None  # (), from the policy that collected the rollout
    clip_fraction: Tensor | None = None  # ()


class Objective(Protocol):
    """An algorithm's loss."""

    def __call__(self, evaluation: Evaluation, minibatch: Minibatch) -> ReinforcementLoss: ...


def evaluate(policy: ActorCriticPolicy, observations: Tensor, actions: Tensor) -> Evaluation:
    """Encode once and read everything off the features, in SB3's own order of operations."""
    encoder = policy.features_extractor
    if not isinstance(encoder, Encoder):
        values, log_prob, entropy = policy.evaluate_actions(observations, actions)
        return Evaluation(values.flatten(), log_prob, entropy)
    output = encoder.encode(as_images(observations))
    latent_policy, latent_value = policy.mlp_extractor(output.features)
    distribution = policy._get_action_dist_from_latent(latent_policy)
    log_prob = distribution.log_prob(actions)
    values = policy.value_net(latent_value).flatten()
    log_probs = getattr(distribution.distribution, "logits", None)
    return Evaluation(values, log_prob, distribution.entropy(), output, log_probs)


def _advantages(minibatch: Minibatch, normalize: bool) -> Tensor:
    advantages = minibatch.advantages
    if normalize and len(advantages) > 1:
        return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return advantages


def _negative_entropy(evaluation: Evaluation) -> Tensor:
    if evaluation.entropy is None:
        return -torch.mean(-evaluation.log_prob)
    return -torch.mean(evaluation.entropy)


@dataclass(frozen=True)
class PolicyGradient:
    """A2C: advantage times log-likelihood, and the squared error of the value."""

    normalize_advantage: bool

    def __call__(self, evaluation: Evaluation, minibatch: Minibatch) -> ReinforcementLoss:
        advantages = _advantages(minibatch, self.normalize_advantage)
        return ReinforcementLoss(
            policy=-(advantages * evaluation.log_prob).mean(),
            value=F.mse_loss(minibatch.returns, evaluation.values),
            entropy=_negative_entropy(evaluation),
        )


@dataclass(frozen=True)
class ClippedSurrogate:
    """PPO: the clipped likelihood ratio, and optionally a clipped value."""

    normalize_advantage: bool
    clip_range: float
    clip_range_vf: float | None

    def __call__(self, evaluation: Evaluation, minibatch: Minibatch) -> ReinforcementLoss:
        advantages = _advantages(minibatch, self.normalize_advantage)
        log_ratio = evaluation.log_prob - minibatch.old_log_prob
        ratio = torch.exp(log_ratio)
        clipped = torch.clamp(ratio, 1 - self.clip_range, 1 + self.clip_range)
        values = evaluation.values
        if self.clip_range_vf is not None:
            step = values - minibatch.old_values
            step = torch.clamp(step, -self.clip_range_vf, self.clip_range_vf)
            values = minibatch.old_values + step
        with torch.no_grad():
            # Schulman's low-variance estimate of the reverse KL.
            kl = torch.mean((ratio - 1) - log_ratio)
            clip_fraction = torch.mean((torch.abs(ratio - 1) > self.clip_range).float())
        return ReinforcementLoss(
            policy=-torch.min(advantages * ratio, advantages * clipped).mean(),
            value=F.mse_loss(minibatch.returns, values),
            entropy=_negative_entropy(evaluation),
            kl=kl,
            clip_fraction=clip_fraction,
        )
