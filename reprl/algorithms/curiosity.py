"""What an on-policy algorithm does with an intrinsic reward: scale it, value it, add it, learn it.

rollout -> rewards of the observations reached -> divided by the deviation of their running return
-> advantages of a second value head, over the ends of games -> **added to the game's advantages**;
in the update the second value head and the reward's own model are two more terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from torch import Tensor, nn
from torch.nn import functional as F

from reprl import components
from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.algorithms.update import MinibatchLoss, Objective, Term
from reprl.envs.observation import frame_channels
from reprl.errors import UserError
from reprl.intrinsic.base import IntrinsicReward
from reprl.intrinsic.moments import RunningMoments
from reprl.policy import (
    PolicyOutput,
    as_input,
    critic_features,
    critic_latent,
    critic_width,
)
from reprl.rng import stream_seed, torch_stream

ROWS = 256  # observations in one forward pass


def endless_advantages(
    rewards: np.ndarray, values: np.ndarray, last: np.ndarray, gamma: float, gae_lambda: float
) -> np.ndarray:
    """GAE (T, n) of rewards and values (T, n) and the values (n,) after them, as if no game ended.

    Dying ends the game and not the search: what lies beyond stays new.
    """
    advantages = np.zeros_like(rewards)
    following = np.zeros_like(last)
    for t in reversed(range(len(rewards))):
        after = last if t + 1 == len(rewards) else values[t + 1]
        following = rewards[t] + gamma * after - values[t] + gamma * gae_lambda * following
        advantages[t] = following
    return advantages


class Curiosity(nn.Module):
    """An intrinsic reward with its scale and its value head, beside one agent's policy."""

    running: Tensor  # (n_envs,) float64: the discounted sum of each environment's rewards so far

    def __init__(
        self,
        *,
        spec: dict[str, Any],
        policy: ActorCriticPolicy,
        observation_space: spaces.Space,
        n_envs: int,
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__()
        shape = observation_space.shape
        numbers = isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1
        if shape is None or not (numbers or is_image_space(observation_space)):
            raise UserError(
                f"intrinsic rewards need pictures or a row of numbers, got {observation_space}: "
                "set intrinsic=none."
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "intrinsic"))
            reward: IntrinsicReward = components.build("intrinsic", spec)
            reward.setup(shape, frame_channels(observation_space))
            self.reward = reward
            self.value = nn.Linear(critic_width(policy), 1)
            nn.init.orthogonal_(self.value.weight)
            nn.init.zeros_(self.value.bias)
        self.returned = RunningMoments()
        self.register_buffer("running", torch.zeros(n_envs, dtype=torch.float64))
        self.generator = torch_stream(seed, "intrinsic", "rows")
        self.returns = np.zeros((0, n_envs), np.float32)  # (T, n_envs) of the rollout
        self.to(device)

    @property
    def learned(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.requires_grad]

    def values(self, policy: ActorCriticPolicy, features: Tensor) -> Tensor:
        """Expected intrinsic returns (B,) of features (B, F), from where the value is read too."""
        found: Tensor = self.value(critic_latent(policy, features)).flatten()
        return found

    # -- after a rollout --------------------------------------------------------------------------

    @torch.no_grad()
    def finish(self, memory: RolloutMemory, policy: ActorCriticPolicy) -> dict[str, float]:
        """Add the intrinsic advantages to a rollout's; numbers for the log."""
        steps, n_envs = memory.buffer_size, memory.n_envs
        for inputs in self._following(memory, policy):
            self.reward.observe(inputs)
        found = [self.reward.rewards(inputs) for inputs in self._following(memory, policy)]
        rewards = _by_time(torch.cat(found), steps)  # (T, n_envs)
        scaled = self.scaled(rewards)
        values = torch.cat(
            [
                self.values(policy, critic_features(policy, inputs))
                for inputs in self._inputs(memory, policy)
            ]
        )
        assert memory.last_observations is not None
        after = as_input(policy, memory.to_torch(memory.last_observations))
        last = self.values(policy, critic_features(policy, after)).double().cpu().numpy()
        known = _by_time(values, steps)
        reward = self.reward
        advantages = endless_advantages(scaled, known, last, reward.gamma, reward.gae_lambda)
        self.returns = (advantages + known).astype(np.float32)
        if reward.coef:
            memory.advantages += (reward.coef * advantages).astype(np.float32)
        assert rewards.shape == (steps, n_envs)
        return {
            "intrinsic/reward": float(scaled.mean()),
            "intrinsic/raw_reward": float(rewards.mean()),
            "intrinsic/return_std": float(self.returned.std),
        }

    def scaled(self, rewards: np.ndarray) -> np.ndarray:
        """Rewards (T, n_envs) divided by the deviation of all running returns, these included."""
        sums = []
        for row in torch.from_numpy(rewards).to(self.running):
            self.running.mul_(self.reward.gamma).add_(row)
            sums.append(self.running.clone())
        self.returned.add(torch.cat(sums))
        return rewards / float(self.returned.std)

    def _inputs(self, memory: RolloutMemory, policy: ActorCriticPolicy) -> Iterator[Tensor]:
        """The rollout's observations as networks take them, environment by environment."""
        for place in _chunks(memory):
            yield as_input(policy, memory.to_torch(memory.observed(place)))

    def _following(self, memory: RolloutMemory, policy: ActorCriticPolicy) -> Iterator[Tensor]:
        """The observation after each: of a game that ended, the first of the next."""
        for place in _chunks(memory):
            yield as_input(policy, memory.to_torch(memory.observed(place, later=1)))

    # -- in the update ----------------------------------------------------------------------------

    def terms(
        self,
        output: PolicyOutput,
        minibatch: Minibatch,
        memory: RolloutMemory,
        policy: ActorCriticPolicy,
    ) -> dict[str, Term]:
        """The second value head's squared error, and the loss of the reward's own model."""
        place = minibatch.place
        steps = memory.buffer_size
        wanted = memory.to_torch(self.returns[place % steps, place // steps])  # (B,)
        following = as_input(policy, memory.to_torch(memory.observed(place, later=1)))
        features = output.features
        if not policy.share_features_extractor:  # those are the actor's
            features = critic_features(policy, as_input(policy, minibatch.observations))
        value = F.mse_loss(self.values(policy, features), wanted)
        return {
            "intrinsic_value": Term(value, self.reward.value_coef),
            "intrinsic_model": Term(self.reward.loss(following, self.generator)),
        }


class CuriousObjective:
    """An algorithm's own terms with those of its curiosity behind them."""

    def __init__(
        self,
        *,
        objective: Objective,
        curiosity: Curiosity,
        memory: RolloutMemory,
        policy: ActorCriticPolicy,
    ) -> None:
        self.objective, self.curiosity = objective, curiosity
        self.memory, self.policy = memory, policy

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        own = self.objective.loss_terms(output, actions, minibatch)
        more = self.curiosity.terms(output, minibatch, self.memory, self.policy)
        return MinibatchLoss(own.terms | more, own.metrics)


def _chunks(memory: RolloutMemory) -> Iterator[np.ndarray]:
    every = np.arange(memory.buffer_size * memory.n_envs)
    for start in range(0, len(every), ROWS):
        yield every[start : start + ROWS]


def _by_time(flat: Tensor, steps: int) -> np.ndarray:
    """Numbers (n_envs * T,), environment by environment, as (T, n_envs) float64."""
    return flat.double().cpu().numpy().reshape(-1, steps).T.copy()
