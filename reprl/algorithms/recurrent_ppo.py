"""Recurrent PPO: sb3-contrib's, with our encoder before its memory and our update over sequences.

pictures -> encoder -> LSTM or GRU -> policy and value. Auxiliary losses and diagnostics see the
samples, augmentations the sequences. The state that games in progress carry is in checkpoints;
evaluation, twins and attention carry a state of their own for each view of a game.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import sb3_contrib
import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import MaybeCallback
from torch import Tensor

from reprl.algorithms.gru import CnnGruPolicy, MlpGruPolicy
from reprl.algorithms.ppo import Proximal
from reprl.algorithms.sequence_buffer import SequenceMemory
from reprl.errors import UserError
from reprl.policy import Player, RecurrentPlayer, recurrent_forward
from reprl.reduction import Reduction
from reprl.sequences import Sequences, one_step
from reprl.settings import CLASSES
from reprl.validation import checker

POLICIES = {
    "lstm": {"CnnPolicy": "CnnLstmPolicy", "MlpPolicy": "MlpLstmPolicy"},
    "gru": {"CnnPolicy": "CnnGruPolicy", "MlpPolicy": "MlpGruPolicy"},
}
STATES = ("hidden_pi", "cell_pi", "hidden_vf", "cell_vf")


class _WithSequences(sb3_contrib.RecurrentPPO):
    """sb3-contrib's, with our rollout memory in the place of its own."""

    at_once: bool

    def _setup_model(self) -> None:
        super()._setup_model()
        theirs: Any = self.rollout_buffer
        self.rollout_buffer = SequenceMemory(
            self.n_steps,
            self.observation_space,
            self.action_space,
            theirs.hidden_state_shape,
            self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=self.n_envs,
        )
        self.rollout_buffer.at_once = self.at_once


class RecurrentPPO(Proximal, _WithSequences):
    """PPO with a memory for the policy and one for the value.

    With LSTMs and without extras every bit is sb3-contrib's; `memory="gru"` has GRUs in their
    place, and `at_once` sends a sequence through them in one call, the same within rounding.
    """

    stock: ClassVar[type[OnPolicyAlgorithm]] = sb3_contrib.RecurrentPPO
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **sb3_contrib.RecurrentPPO.policy_aliases,
        "CnnGruPolicy": CnnGruPolicy,
        "MlpGruPolicy": MlpGruPolicy,
    }
    rollout_buffer: SequenceMemory
    _last_lstm_states: Any  # RNNStates, of the games in progress

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        memory: str = "lstm",
        lstm_size: int = 256,
        lstm_layers: int = 1,
        at_once: bool = False,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["RecurrentPPO"])
        self.memory = str(check("memory", memory))
        self.lstm_size = int(check("lstm_size", lstm_size))
        self.lstm_layers = int(check("lstm_layers", lstm_layers))
        self.at_once = bool(check("at_once", at_once))
        if kwargs.get("mode", "plain") != "plain":
            raise UserError(f"{type(self).__name__} has no fast mode: set mode=plain.")
        super().__init__(POLICIES[self.memory].get(policy, policy), env, **kwargs)

    def _policy_arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        memory = {"lstm_hidden_size": self.lstm_size, "n_lstm_layers": self.lstm_layers}
        return {**memory, **super()._policy_arguments(given)}

    def _memory(self) -> dict[str, Any]:
        return {}  # sb3-contrib has no argument for it

    def _sequences(self) -> Callable[[int], Sequences]:
        def single(count: int) -> Sequences:
            """So many samples, each a sequence of its own that begins with an empty memory."""
            lstm: Any = self.policy.lstm_actor
            empty = torch.zeros(lstm.num_layers, count, lstm.hidden_size, device=self.device)
            starts = torch.zeros(count, device=self.device)
            return one_step(starts, actor=(empty, empty), critic=(empty, empty))

        return single

    def _value_inputs(self, place: np.ndarray | None) -> Tensor:
        """The same through the memory, in the state that each step of the rollout began with."""
        memory = self.rollout_buffer
        if place is None:
            assert memory.last_starts is not None
            seen, (actor, critic) = memory.last_observations, self._last_lstm_states
            starts = memory.to_torch(memory.last_starts.astype(np.float32))
            sequences = one_step(starts, actor=actor, critic=critic)
        else:
            seen, sequences = memory.observed(place), memory.steps(place)
        assert seen is not None
        found = recurrent_forward(self.policy, memory.to_torch(seen), sequences).critic
        assert found is not None
        return found

    # -- the seam ---------------------------------------------------------------------------------

    def player(self) -> Player:
        return RecurrentPlayer(self.policy)

    def share(self, reduction: Reduction) -> None:
        raise UserError(f"{type(self).__name__} trains in one process: set ranks=1.")

    def settings(self) -> dict[str, Any]:
        size = {"lstm_size": self.lstm_size, "lstm_layers": self.lstm_layers}
        return super().settings() | {"memory": self.memory, "at_once": self.at_once, **size}

    def buffer_state(self) -> dict[str, np.ndarray]:
        (hidden_pi, cell_pi), (hidden_vf, cell_vf) = self._last_lstm_states
        states = (hidden_pi, cell_pi, hidden_vf, cell_vf)
        carried = {n: s.detach().cpu().numpy() for n, s in zip(STATES, states, strict=True)}
        return carried | super().buffer_state()

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        a, b, c, d = (torch.from_numpy(state[n].copy()).to(self.device) for n in STATES)
        self._last_lstm_states = RNNStates((a, b), (c, d))
        super().load_buffer_state({n: kept for n, kept in state.items() if n not in STATES})

    # -- learning ---------------------------------------------------------------------------------

    def _value_error(self, returns: Tensor, values: Tensor) -> Tensor:
        return torch.mean((returns - values) ** 2)  # as sb3-contrib has it, to the last bit

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "RecurrentPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        return super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
