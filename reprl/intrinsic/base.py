"""The intrinsic reward's interface: observations in, a reward for how new each of them is.

rollout -> **a reward for each step's next observation** -> advantages -> update. What is done with
it (scale, value head, advantages) is the same for all of them: `reprl.algorithms.curiosity`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reprl.settings import INTRINSIC
from reprl.validation import checker


class IntrinsicReward(nn.Module):
    """Rewards for observations, and the loss of the model that finds them new.

    Its parameters and buffers are in checkpoints: running statistics belong into buffers.
    """

    def __init__(
        self,
        *,
        coef: float = 0.5,
        value_coef: float = 0.5,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
    ) -> None:
        super().__init__()
        check = checker(INTRINSIC, self)
        self.coef: float = check("coef", coef)
        self.value_coef: float = check("value_coef", value_coef)
        self.gamma: float = check("gamma", gamma)
        self.gae_lambda: float = check("gae_lambda", gae_lambda)

    def setup(self, shape: tuple[int, ...], channels: int) -> None:
        """Build the networks for observations of this shape; a frame has so many channels.

        Pictures are (stack x channels, H, W), the newest frame last, numbers (D,); runs under a
        random stream of its own.
        """

    def observe(self, observations: Tensor) -> None:
        """Take a rollout's observations (N, ...) float into running statistics, if there are."""

    def rewards(self, observations: Tensor) -> Tensor:
        """How new each observation (B, ...) float is: (B,), at least 0."""
        raise AssertionError(f"{type(self).__name__} must define rewards()")

    def loss(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """The loss () of the model on observations (B, ...); what was seen becomes less new."""
        return observations.new_zeros(())
