"""DQN: SB3's, with the configuration's encoder, `double` targets, exact resume and evaluation.

rollout of `train_freq` steps -> replay buffer -> Q-learning. Without `double` every bit is SB3's.
A checkpoint holds the filled part of the replay buffer, so that a killed run goes on bit for bit.
"""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from torch import Tensor, nn
from torch.nn import functional as F

from reprl.algorithms.base import Algorithm
from reprl.algorithms.stock import Stock
from reprl.algorithms.update import Diverged
from reprl.errors import UserError
from reprl.guard import memory
from reprl.policy import GreedyPlayer, Player
from reprl.validation import flag

KEPT = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class DQN(Stock, stable_baselines3.DQN):
    """Deep Q-learning from a replay buffer; `double` lets the online network choose (2016)."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DQN
    extras: ClassVar[tuple[str, ...]] = ()
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "exploration_rate", "_n_calls")

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        double: bool = False,
        **kwargs: Any,
    ) -> None:
        self.double = flag("double", double)
        super().__init__(policy, env, **kwargs)

    def _heads(self, heads: dict[str, Any]) -> dict[str, Any]:
        layers = heads["net_arch"]  # of policy and value apart: here is one network
        return heads | {"net_arch": layers["pi"] if isinstance(layers, dict) else layers}

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if self.env is None:
            self.buffer_size = self.n_envs  # it only predicts
        self._require_room()
        super()._setup_model()

    def _require_room(self) -> None:
        """Refuse a replay buffer that this machine cannot hold; SB3 keeps two pictures a step."""
        space = self.observation_space
        assert space.shape is not None
        bytes_each = 2 * int(np.prod(space.shape) or 1) * np.dtype(space.dtype).itemsize
        needed = self.buffer_size * bytes_each
        if needed > 0.9 * memory():
            raise UserError(
                f"algo.buffer_size={self.buffer_size:,} needs {needed / 2**30:.0f} GB of memory, "
                f"and this machine has {memory() / 2**30:.0f}: choose a smaller one."
            )

    # -- the seam ---------------------------------------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        frequency = self.train_freq
        return int(getattr(frequency, "frequency", frequency)) * self.n_envs  # type: ignore[arg-type]

    def player(self) -> Player:
        return GreedyPlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"double": self.double}

    def stream_state(self) -> dict[str, Tensor]:
        # exploration draws from the action space's own generator
        state = json.dumps(self.action_space.np_random.bit_generator.state)
        return {"actions": torch.tensor(list(state.encode()), dtype=torch.uint8)}

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        kept = json.loads(bytes(state["actions"].tolist()))
        self.action_space.np_random.bit_generator.state = kept

    def buffer_state(self) -> dict[str, np.ndarray]:
        buffer = self.replay_buffer
        assert buffer is not None
        used = buffer.buffer_size if buffer.full else buffer.pos
        state = {name: getattr(buffer, name)[:used] for name in KEPT}
        return state | {"place": np.array([buffer.pos, buffer.full])}

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        buffer = self.replay_buffer
        assert buffer is not None
        if self.env is None:
            return
        for name in KEPT:
            getattr(buffer, name)[: len(state[name])] = state[name]
        buffer.pos, buffer.full = int(state["place"][0]), bool(state["place"][1])

    # -- learning ---------------------------------------------------------------------------------

    def collect_rollouts(self, *arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        found = super().collect_rollouts(*arguments, **named)
        self.timings.add("env", perf_counter() - began)
        return found

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """SB3's update, or with `double` the same with van Hasselt's targets."""
        began = perf_counter()
        if self.double:
            self._train_double(gradient_steps, batch_size)
        else:
            super().train(gradient_steps, batch_size)
        loss = float(self.logger.name_to_value["train/loss"])
        if not np.isfinite(loss):
            raise Diverged("q", loss, self.num_timesteps)
        self.timings.add("update", perf_counter() - began)

    def _train_double(self, gradient_steps: int, batch_size: int) -> None:
        assert self.replay_buffer is not None
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            discounts = self.gamma if batch.discounts is None else batch.discounts
            with torch.no_grad():
                best = self.q_net(batch.next_observations).argmax(1, keepdim=True)  # (B, 1)
                following = self.q_net_target(batch.next_observations).gather(1, best)
                targets = batch.rewards + (1 - batch.dones) * discounts * following
            values = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = F.smooth_l1_loss(values, targets)
            losses.append(loss.item())
            self.policy.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", float(np.mean(losses)))

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 4,
        tb_log_name: str = "DQN",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        return super().learn(
            total_timesteps,
            callback,
            log_interval,  # type: ignore[arg-type]
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
        )
