"""Dueling Q-networks (Wang et al. 2016): how good a state is, and how much better each action.

features -> **value and advantages** -> Q. SB3's Q-network with another last part.
"""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.dqn.policies import CnnPolicy, DQNPolicy, QNetwork
from torch import Tensor, nn

WIDTH = 512  # of each stream behind features of pictures, as the authors had it


class DuelingHead(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean of A(s, .)."""

    def __init__(
        self, features: int, actions: int, layers: list[int], activation: type[nn.Module]
    ) -> None:
        super().__init__()
        self.value = nn.Sequential(*create_mlp(features, 1, layers, activation))
        self.advantage = nn.Sequential(*create_mlp(features, actions, layers, activation))

    def forward(self, features: Tensor) -> Tensor:
        advantages = self.advantage(features)  # (B, A)
        values: Tensor = self.value(features) + advantages - advantages.mean(1, keepdim=True)
        return values


class _Dueling(DQNPolicy):
    def make_q_net(self) -> QNetwork:
        network: Any = super().make_q_net()
        layers = list(network.net_arch) or [WIDTH]
        actions = int(self.action_space.n)  # type: ignore[attr-defined]
        head = DuelingHead(network.features_dim, actions, layers, network.activation_fn)
        network.q_net = head.to(self.device)
        found: QNetwork = network
        return found


class DuelingMlpPolicy(_Dueling):
    """Of numbers."""


class DuelingCnnPolicy(_Dueling, CnnPolicy):
    """Of pictures."""
