"""A GRU in the place of sb3-contrib's LSTM: half of the state, otherwise the same policy.

features -> **GRU** -> policy and value, for `algo.memory=gru` of recurrent PPO.
"""

from __future__ import annotations

from typing import Any

from sb3_contrib.common.recurrent.policies import (
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
)
from torch import Tensor, nn


class GruMemory(nn.GRU):
    """A GRU that is called as an LSTM is: what would be the cell's state passes through."""

    def forward(  # type: ignore[override]
        self, inputs: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        found, hidden = super().forward(inputs, state[0])
        return found, (hidden, state[1])


class _WithGru(RecurrentActorCriticPolicy):
    def __init__(self, observation_space: Any, action_space: Any, lr_schedule: Any, **named: Any):
        super().__init__(observation_space, action_space, lr_schedule, **named)
        for name in ("lstm_actor", "lstm_critic"):
            if (old := getattr(self, name)) is not None:
                new = GruMemory(old.input_size, old.hidden_size, num_layers=old.num_layers)
                setattr(self, name, new)
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1),  # type: ignore[call-arg]
            **self.optimizer_kwargs,
        )


class MlpGruPolicy(_WithGru):
    """Of numbers."""


class CnnGruPolicy(_WithGru, RecurrentActorCriticCnnPolicy):
    """Of pictures."""
