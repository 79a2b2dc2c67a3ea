"""A value-based agent on the seam: SB3's DQN with its replay buffer, saved and resumed by reprl."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor

from reprl.algorithms.base import Algorithm
from reprl.policy import GreedyPlayer, Player

KEPT = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class ToyQ(Algorithm, stable_baselines3.DQN):
    """Q-learning from a replay buffer; the configuration's encoders and losses are not for it."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DQN
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "exploration_rate", "_n_calls")

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        encoder: Any = None,
        attention: Any = None,
        auxiliary: Any = None,
        augmentation: Any = None,
        mode: str = "plain",
        seed: int | None = None,
        device: str = "cpu",
        buffer_size: int = 200,
        learning_starts: int = 32,
        batch_size: int = 8,
    ) -> None:
        self.arguments = {}
        super().__init__(
            policy,
            env,
            buffer_size=buffer_size,
            learning_starts=learning_starts,
            batch_size=batch_size,
            train_freq=4,
            target_update_interval=16,
            seed=seed,
            device=device,
        )

    @property
    def steps_per_update(self) -> int:
        return int(self.train_freq.frequency) * self.n_envs  # type: ignore[union-attr]

    def player(self) -> Player:
        return GreedyPlayer(self.policy, epsilon=0.05)

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
        for name in KEPT:
            getattr(buffer, name)[: len(state[name])] = state[name]
        buffer.pos, buffer.full = int(state["place"][0]), bool(state["place"][1])
