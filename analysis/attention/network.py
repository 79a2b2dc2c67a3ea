"""A trained policy as a plain function of images, which is how saliency and faithfulness see it."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from reprl.errors import UserError
from reprl.policy import action_logits, state_values


class Network(nn.Module):
    """Images (B, C, H, W) in [0, 1] -> action logits (B, A); any SB3 actor-critic on images."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        space = policy.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 3:
            raise UserError(f"attention maps need an agent that sees images, not {space}.")
        if not isinstance(policy.action_space, spaces.Discrete):
            raise UserError("attention maps need an agent with discrete actions.")
        self.policy = policy
        # SB3 divides by 255 unless told that the images are floats already.
        self.scale = 255.0 if policy.normalize_images else 1.0
        self.shape: tuple[int, int, int] = (space.shape[0], space.shape[1], space.shape[2])

    @property
    def extractor(self) -> nn.Module:
        """What the action head reads: an Encoder, or SB3's own features extractor."""
        shared = self.policy.share_features_extractor
        return self.policy.features_extractor if shared else self.policy.pi_features_extractor

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def images(self, observations: np.ndarray) -> Tensor:
        """Observations (B, C, H, W) as the float images the network takes."""
        return torch.as_tensor(observations, device=self.device).float() / self.scale

    def forward(self, images: Tensor) -> Tensor:
        return action_logits(self.policy, images)

    def values(self, images: Tensor) -> Tensor:
        """State values (B,)."""
        return state_values(self.policy, images)


def network_of(model: object) -> Network:
    """The network of an SB3 or reprl model, in evaluation mode and without gradients to keep."""
    policy = getattr(model, "policy", None)
    if not isinstance(policy, ActorCriticPolicy):
        raise UserError("attention maps need an actor-critic agent, such as A2C or PPO.")
    policy.set_training_mode(False)
    return Network(policy)


def centred(logits: Tensor) -> Tensor:
    """Logits without the offset that a softmax ignores, (B, A)."""
    return logits - logits.mean(dim=1, keepdim=True)


def kl(clean: Tensor, changed: Tensor) -> Tensor:
    """KL(pi || pi') in nats between two batches of logits (B, A), (B,)."""
    log_p, log_q = clean.log_softmax(dim=1), changed.log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)
