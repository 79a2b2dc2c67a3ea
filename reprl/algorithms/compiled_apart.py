"""The fast mode of a policy whose value has a network of its own: each side compiled.

`CompiledPolicy` plays the rollout -> **one side, or both**, for the epochs of PPG and IDAAC.
"""

from __future__ import annotations

from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from reprl.algorithms.compiled import CompiledPolicy, Outputs, encoding_of, in_full
from reprl.policy import (
    PolicyOutput,
    actor_latent,
    actor_layers,
    critic_features,
    critic_latent,
    critic_layers,
    encoded,
    last_layers,
    latents,
)
from reprl.precision import FP32, computing_in


class CompiledApart(CompiledPolicy):
    """The forward passes of policy and value, apart and together, for the update."""

    def __init__(self, policy: ActorCriticPolicy, *, compile: bool, precision: str = FP32) -> None:
        # Two passes may stand before one step, which CUDA's replayed graphs would overwrite.
        super().__init__(policy, compile=compile, precision=precision, graphs=False)
        self._acting = self._made(self._actor_side)
        self._valuing = self._made(self._critic_side)
        self._both = self._made(self._both_sides)

    def _actor_side(self, images: Tensor) -> Outputs:
        """(B, stack, H, W) -> features, feature map, attention, actor, log-probabilities."""
        policy = self.policy
        with computing_in(self.precision, images.device.type):
            features, encoding = encoded(policy.pi_features_extractor, images)
            actor = actor_latent(policy, features).float()
        return *in_full(features, encoding), actor, actor_layers(policy, actor)

    def _critic_side(self, images: Tensor) -> Outputs:
        """(B, stack, H, W) -> the value's features, critic, values."""
        with computing_in(self.precision, images.device.type):
            features = critic_features(self.policy, images)
            critic = critic_latent(self.policy, features).float()
        return features.float(), critic, critic_layers(self.policy, critic)

    def _both_sides(self, images: Tensor) -> Outputs:
        """(B, stack, H, W) -> all of the actor's side, critic and values."""
        with computing_in(self.precision, images.device.type):
            features, actor, critic, encoding = latents(self.policy, images)
            actor, critic = actor.float(), critic.float()
        log_probs, values = last_layers(self.policy, actor, critic)
        return *in_full(features, encoding), actor, log_probs, critic, values

    def forward(self, policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
        """Policy outputs of a minibatch, with what the heads beside the action head read."""
        found = self._run(self._both, observations, self._both_sides)
        features, feature_map, attention, actor, log_probs, critic, values = found
        assert features is not None
        assert values is not None
        encoding = encoding_of(features, feature_map, attention)
        return PolicyOutput(values, features, encoding, log_probs, actor=actor, critic=critic)

    def actor(self, policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
        """The policy's side alone; values are 0."""
        found = self._run(self._acting, observations, self._actor_side)
        features, feature_map, attention, actor, log_probs = found
        assert features is not None
        encoding = encoding_of(features, feature_map, attention)
        none = features.new_zeros(len(features))
        return PolicyOutput(none, features, encoding, log_probs, actor=actor)

    def critic(self, policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
        """The value's side alone: no distribution and no attention."""
        features, critic, values = self._run(self._valuing, observations, self._critic_side)
        assert features is not None
        assert values is not None
        return PolicyOutput(values, features, critic=critic)
