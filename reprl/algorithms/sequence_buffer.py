"""The rollout memory of a policy with a memory: samples in the order they were played.

rollout -> **sequences** -> update. A minibatch is sb3-contrib's, draw for draw; its samples know
their sequences, and their neighbours in time as in any rollout memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer
from torch import Tensor

from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.sequences import Sequences, States, one_step, places


class SequenceMemory(RolloutMemory, RecurrentRolloutBuffer):
    """sb3-contrib's buffer, with the states of policy and value before each step."""

    at_once: bool = False  # whether its sequences go through the memory in one call

    def starts(self) -> np.ndarray:
        if not self.generator_ready:
            return self.episode_starts
        return self.episode_starts.reshape(self.n_envs, self.buffer_size).T  # sb3-contrib swaps it

    def steps(self, index: np.ndarray) -> Sequences:
        """Samples (B,), each by itself in its own state; ask before minibatches are drawn."""
        env, time = index // self.buffer_size, index % self.buffer_size

        def states(hidden: np.ndarray, cell: np.ndarray) -> States:
            one, two = (  # of (T, layers, n_envs, width)
                self.to_torch(part[time, :, env].swapaxes(0, 1)).contiguous()
                for part in (hidden, cell)
            )
            return one, two

        return one_step(
            self.to_torch(self.episode_starts[time, env].astype(np.float32)),
            actor=states(self.hidden_states_pi, self.cell_states_pi),
            critic=states(self.hidden_states_vf, self.cell_states_vf),
        )

    def _get_samples(  # type: ignore[override]
        self, batch_inds: np.ndarray, env_change: np.ndarray, env: Any = None
    ) -> Minibatch:
        starts = self.episode_starts[batch_inds].ravel()  # (B,) float32
        begins = (starts > 0) | (env_change[batch_inds].ravel() > 0)
        rows, length = places(begins)
        first = np.flatnonzero(rows % length == 0)  # samples that begin a sequence
        padded = np.zeros(len(first) * length, np.float32)
        padded[rows] = starts

        def column(values: np.ndarray) -> Tensor:
            return self.to_torch(values[batch_inds].ravel())

        return Minibatch(
            observations=self.to_torch(self.observations[batch_inds]),
            actions=self.to_torch(self.actions[batch_inds]),
            old_values=column(self.values),
            old_log_prob=column(self.log_probs),
            advantages=column(self.advantages),
            returns=column(self.returns),
            place=batch_inds,
            sequences=Sequences(
                rows=self.to_torch(rows),
                length=length,
                starts=self.to_torch(padded),
                actor=self._states(self.hidden_states_pi, self.cell_states_pi, batch_inds[first]),
                critic=self._states(self.hidden_states_vf, self.cell_states_vf, batch_inds[first]),
                at_once=self.at_once,
            ),
        )

    def _states(self, hidden: np.ndarray, cell: np.ndarray, index: np.ndarray) -> States:
        """States (layers, sequences, width) before these samples."""
        one, two = (
            self.to_torch(part[index].swapaxes(0, 1)).contiguous() for part in (hidden, cell)
        )
        return one, two
