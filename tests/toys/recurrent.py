"""A recurrent agent on the seam: A2C whose policy carries a GRU's state from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticCnnPolicy
from torch import Tensor, nn

from reprl.algorithms import A2C
from reprl.policy import Player, PolicyPlayer, State, Step, as_input, last_layers

WIDTH = 16


class RecurrentPolicy(ActorCriticCnnPolicy):
    """Features -> GRU cell -> the heads; the state is the caller's."""

    def _build(self, lr_schedule: Any) -> None:
        self.features_dim, wide = WIDTH, self.features_dim  # the heads read the cell
        super()._build(lr_schedule)
        self.cell = nn.GRUCell(wide, WIDTH)
        self.optimizer.add_param_group({"params": list(self.cell.parameters())})

    def step(self, observations: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities (B, A), values (B,) and the next hidden state (B, WIDTH)."""
        hidden = self.cell(self.features_extractor(as_input(self, observations)), hidden)
        return *last_layers(self, *self.mlp_extractor(hidden)), hidden


class RecurrentPlayer(PolicyPlayer):
    """Carries the cell's state through each game."""

    def initial_state(self, n: int) -> State:
        return (torch.zeros(n, WIDTH),)

    def forward(self, observations: Tensor, state: State) -> tuple[Step, State]:
        log_probs, values, hidden = self.policy.step(observations, *state)
        return Step(log_probs.exp(), values, hidden, None), (hidden,)


class ToyRecurrent(A2C):
    """A2C over whole rollouts, through time from the state the rollout began with."""

    hidden: Tensor | None = None  # (n_envs, WIDTH) at the rollout's end

    def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
        super().__init__(RecurrentPolicy, env, **kwargs)

    def player(self) -> Player:
        return RecurrentPlayer(self.policy)

    def collect_rollouts(self, env: Any, callback: Any, buffer: Any, n: int) -> bool:
        callback.on_rollout_start()
        buffer.reset()
        hidden = torch.zeros(self.n_envs, WIDTH) if self.hidden is None else self.hidden
        self.begun = hidden
        for _ in range(n):
            starts = torch.as_tensor(self._last_episode_starts, dtype=torch.bool)
            with torch.no_grad():
                seen, hidden = torch.as_tensor(self._last_obs), hidden * ~starts[:, None]
                log_probs, values, hidden = self.policy.step(seen, hidden)
            actions = torch.multinomial(log_probs.exp(), 1)
            self._phase = "collecting"
            new, rewards, dones, infos = env.step(actions.squeeze(1).numpy())
            self.num_timesteps += self.n_envs
            self._update_info_buffer(infos, dones)
            taken = log_probs.gather(1, actions).squeeze(1)
            step = (self._last_obs, actions.numpy(), rewards, self._last_episode_starts)
            buffer.add(*step, values, taken)
            self._last_obs, self._last_episode_starts = new, dones
        with torch.no_grad():
            _, last, _ = self.policy.step(torch.as_tensor(self._last_obs), hidden)
        buffer.compute_returns_and_advantage(last, self._last_episode_starts)
        self.hidden = hidden
        return True

    def train(self) -> None:
        buffer, hidden, terms = self.rollout_buffer, self.begun, []
        for t in range(buffer.buffer_size):
            starts = torch.as_tensor(buffer.episode_starts[t], dtype=torch.bool)
            seen, hidden = torch.as_tensor(buffer.observations[t]), hidden * ~starts[:, None]
            log_probs, values, hidden = self.policy.step(seen, hidden)
            taken = log_probs.gather(1, torch.as_tensor(buffer.actions[t]).long()).squeeze(1)
            error = 0.5 * (torch.as_tensor(buffer.returns[t]) - values).square()
            terms.append((error - torch.as_tensor(buffer.advantages[t]) * taken).mean())
        self.policy.optimizer.zero_grad()
        torch.stack(terms).mean().backward()
        self.policy.optimizer.step()
        self._n_updates += 1
        self._phase = "ready"

    def buffer_state(self) -> dict[str, np.ndarray]:
        return {} if self.hidden is None else {"hidden": self.hidden.numpy()}

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        self.hidden = torch.from_numpy(state["hidden"]) if "hidden" in state else None
