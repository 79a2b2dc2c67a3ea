"""Networks whose attention is known by construction."""

import numpy as np
import torch
from stable_baselines3 import PPO
from torch import Tensor, nn

from reprl.analysis.attention.network import Network
from reprl.encoders.base import Encoder, EncoderOutput
from reprl.envs.vector import make_vec_env
from reprl.policy import Outputs, State

REGION = (slice(20, 28), slice(50, 58))  # the only pixels RegionNetwork depends on


class RegionNetwork(Network):
    """Two actions; logits (+s, -s) with s a weighted sum over REGION of the newest frame."""

    def __init__(self, size: int = 84, strength: float = 0.4) -> None:
        nn.Module.__init__(self)
        self.shape, self.scale = (4, size, size), 255.0
        weights = torch.zeros(size, size)
        weights[REGION] = strength
        self.weights = nn.Parameter(weights)

    def forward(self, images: Tensor) -> Tensor:
        s = (images[:, -1] * self.weights).sum(dim=(1, 2))
        return torch.stack([s, -s], dim=1)

    def initial_state(self, n: int) -> State:
        return ()

    def outputs(self, observations, state, starts=None):
        with torch.no_grad():
            probs = self(self.images(observations)).double().softmax(dim=1).numpy()
        empty = np.zeros((len(probs), 0), np.float32)
        return Outputs(probs, observations.mean(axis=(1, 2, 3)), empty, None), state


class BallEncoder(Encoder):
    """Attends to whatever is lit between bricks and paddle: on the clean game only the ball."""

    def __init__(self, observation_space, shuffled: bool = False) -> None:
        super().__init__(observation_space, features_dim=8)
        self.linear = nn.Linear(84 * 84, 8)
        seen = torch.zeros(84, 84)
        seen[38:74, 5:79] = 1.0
        self.register_buffer("seen", seen)
        places = np.random.default_rng(0).permutation(84 * 84) if shuffled else np.arange(84 * 84)
        self.places = torch.from_numpy(places)

    def encode(self, images: Tensor) -> EncoderOutput:
        found = (images[:, -1:] * self.seen).flatten(1)  # (B, 84*84)
        attention = found[:, self.places].view(-1, 1, 84, 84)
        return EncoderOutput(self.linear(found).relu(), attention, attention)

    def project(self, attention: Tensor, size: int | tuple[int, int]) -> Tensor:
        shape = (size, size) if isinstance(size, int) else tuple(size)
        return nn.functional.interpolate(attention, shape, mode="nearest")


def ball_model(shuffled: bool = False) -> PPO:
    """A policy with the hand-built mask, untrained otherwise."""
    env = make_vec_env(n_envs=1)
    extractor = {"features_extractor_class": BallEncoder, "net_arch": []}
    arguments = extractor | {"features_extractor_kwargs": {"shuffled": shuffled}}
    return PPO("CnnPolicy", env, n_steps=8, batch_size=8, seed=0, policy_kwargs=arguments)
