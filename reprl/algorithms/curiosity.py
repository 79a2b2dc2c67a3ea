"""What an on-policy algorithm does with an intrinsic reward: scale it, value it, add it, learn it.

rollout -> rewards of the observations reached -> divided by the deviation of their running return
-> what the rollout's memory makes of them, with the values of a second head: advantages over the
ends of games -> **added to the game's advantages**; in the update the second value head and the
reward's own model are two more terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from reprl.policy import PolicyOutput, as_input, critic_width, value_input
from reprl.rng import stream_seed, torch_stream

ROWS = 256  # observations in one forward pass
Latents = Callable[[np.ndarray | None], Tensor]


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

    def values(self, latent: Tensor) -> Tensor:
        """Expected intrinsic returns (B,) of what the value head is given, (B, V)."""
        found: Tensor = self.value(latent).flatten()
        return found

    # -- after a rollout --------------------------------------------------------------------------

    @torch.no_grad()
    def finish(
        self, memory: RolloutMemory, policy: ActorCriticPolicy, latents: Latents
    ) -> dict[str, float]:
        """Add the intrinsic advantages to a rollout's; numbers for the log.

        `latents` gives what the value head reads of samples, or with None of the step after.
        """
        steps, n_envs = memory.buffer_size, memory.n_envs
        for inputs in self._following(memory, policy):
            self.reward.observe(inputs)
        found = [self.reward.rewards(inputs) for inputs in self._following(memory, policy)]
        rewards = _by_time(torch.cat(found), steps)  # (T, n_envs)
        scaled = self.scaled(rewards)
        values = torch.cat([self.values(latents(place)) for place in _chunks(memory)])
        last = self.values(latents(None)).double().cpu().numpy()
        self.returns = memory.explore(scaled, _by_time(values, steps), last, self.reward)
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

    def _following(self, memory: RolloutMemory, policy: ActorCriticPolicy) -> Iterator[Tensor]:
        """The observation after each: of a game that ended, the first of the next."""
        for place in _chunks(memory):
            yield as_input(policy, memory.to_torch(memory.observed(place, later=1)))

    # -- in the update ----------------------------------------------------------------------------

    def value_terms(
        self,
        output: PolicyOutput,
        minibatch: Minibatch,
        memory: RolloutMemory,
        policy: ActorCriticPolicy,
    ) -> dict[str, Term]:
        """The second value head's squared error."""
        place, steps = minibatch.place, memory.buffer_size
        wanted = memory.to_torch(self.returns[place % steps, place // steps])  # (B,)
        value = F.mse_loss(self.values(value_input(policy, output)), wanted)
        return {"intrinsic_value": Term(value, self.reward.value_coef)}

    def model_terms(
        self, minibatch: Minibatch, memory: RolloutMemory, policy: ActorCriticPolicy
    ) -> dict[str, Term]:
        """The loss of the reward's own model."""
        following = memory.to_torch(memory.observed(minibatch.place, later=1))
        loss = self.reward.loss(as_input(policy, following), self.generator)
        return {"intrinsic_model": Term(loss)}


class CuriousObjective:
    """An algorithm's own terms with those of its curiosity behind them."""

    def __init__(
        self, objective: Objective, more: Callable[[PolicyOutput, Minibatch], dict[str, Term]]
    ) -> None:
        self.objective, self.more = objective, more

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        own = self.objective.loss_terms(output, actions, minibatch)
        return MinibatchLoss(own.terms | self.more(output, minibatch), own.metrics)


def _chunks(memory: RolloutMemory) -> Iterator[np.ndarray]:
    every = np.arange(memory.buffer_size * memory.n_envs)
    for start in range(0, len(every), ROWS):
        yield every[start : start + ROWS]


def _by_time(flat: Tensor, steps: int) -> np.ndarray:
    """Numbers (n_envs * T,), environment by environment, as (T, n_envs) float64."""
    return flat.double().cpu().numpy().reshape(-1, steps).T.copy()
