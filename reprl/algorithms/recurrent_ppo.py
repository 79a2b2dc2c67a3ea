"""Recurrent PPO: sb3-contrib's, with our encoder before its memory, and that on the seam.

pictures -> encoder -> LSTM or GRU -> policy and value. The state that games in progress carry is in
checkpoints; evaluation, twins and attention carry a state of their own for each view of a game.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import sb3_contrib
import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

from reprl.algorithms.gru import CnnGruPolicy, MlpGruPolicy
from reprl.algorithms.stock import Stock
from reprl.algorithms.update import Diverged
from reprl.policy import Player, RecurrentPlayer
from reprl.settings import CLASSES
from reprl.validation import checker

POLICIES = {
    "lstm": {"CnnPolicy": "CnnLstmPolicy", "MlpPolicy": "MlpLstmPolicy"},
    "gru": {"CnnPolicy": "CnnGruPolicy", "MlpPolicy": "MlpGruPolicy"},
}
STATES = ("hidden_pi", "cell_pi", "hidden_vf", "cell_vf")


class RecurrentPPO(Stock, sb3_contrib.RecurrentPPO):
    """PPO with a memory for the policy and one for the value.

    With LSTMs every bit is sb3-contrib's; `memory="gru"` has GRUs in their place.
    """

    stock: ClassVar[type[BaseAlgorithm]] = sb3_contrib.RecurrentPPO
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **sb3_contrib.RecurrentPPO.policy_aliases,
        "CnnGruPolicy": CnnGruPolicy,
        "MlpGruPolicy": MlpGruPolicy,
    }
    _last_lstm_states: Any  # RNNStates, of the games in progress

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        memory: str = "lstm",
        lstm_size: int = 256,
        lstm_layers: int = 1,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["RecurrentPPO"])
        self.memory = str(check("memory", memory))
        self.lstm_size = int(check("lstm_size", lstm_size))
        self.lstm_layers = int(check("lstm_layers", lstm_layers))
        super().__init__(POLICIES[self.memory].get(policy, policy), env, **kwargs)

    def _policy_arguments(self, given: dict[str, Any] | None) -> dict[str, Any]:
        arguments = dict(super()._policy_arguments(given) or {})
        memory = {"lstm_hidden_size": self.lstm_size, "n_lstm_layers": self.lstm_layers}
        return {**memory, **arguments}

    # -- the seam ---------------------------------------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        return self.n_steps * self.n_envs

    def player(self) -> Player:
        return RecurrentPlayer(self.policy)

    def settings(self) -> dict[str, Any]:
        size = {"lstm_size": self.lstm_size, "lstm_layers": self.lstm_layers}
        return super().settings() | {"memory": self.memory, **size}

    def buffer_state(self) -> dict[str, np.ndarray]:
        (hidden_pi, cell_pi), (hidden_vf, cell_vf) = self._last_lstm_states
        states = (hidden_pi, cell_pi, hidden_vf, cell_vf)
        return {n: s.detach().cpu().numpy() for n, s in zip(STATES, states, strict=True)}

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        a, b, c, d = (torch.from_numpy(state[n].copy()).to(self.device) for n in STATES)
        self._last_lstm_states = RNNStates((a, b), (c, d))

    # -- learning ---------------------------------------------------------------------------------

    def collect_rollouts(self, *arguments: Any, **named: Any) -> bool:
        began = perf_counter()
        done = super().collect_rollouts(*arguments, **named)
        self.timings.add("env", perf_counter() - began)
        return done

    def train(self) -> None:
        """sb3-contrib's update; a loss that is no number ends the run."""
        began = perf_counter()
        super().train()
        loss = float(self.logger.name_to_value["train/loss"])
        if not np.isfinite(loss):
            raise Diverged("total", loss, self.num_timesteps)
        self.timings.add("update", perf_counter() - began)
