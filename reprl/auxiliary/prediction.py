"""Value and reward prediction: what the features must say about the points to come."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import mlp
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


class ValuePrediction(AuxiliaryLoss):
    """Mean squared error of a second value head to the return; reaches encoder and this head."""

    needs = frozenset({"returns"})

    def __init__(self, *, coef: Coefficient = 0.05, hidden: int = 128, begin: int = 0) -> None:
        super().__init__()
        self.declare("value_prediction", coef=coef, begin=begin)
        self.hidden = checker(CLASSES["ValuePrediction"], self)("hidden", hidden)

    def setup(self, context: Context) -> None:
        self.head = mlp(context.encoder.features_dim, self.hidden, 1)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        guess = self.head(batch.output.features).squeeze(1)  # (B,)
        return {"value_prediction": functional.mse_loss(guess, batch.returns.detach())}


class RewardPrediction(AuxiliaryLoss):
    """Sign of the reward that follows this observation and action, as three classes.

    Most steps pay nothing, so each class present in the batch weighs the same. Gradient reaches
    the encoder and this head.
    """

    needs = frozenset({"rewards"})

    def __init__(self, *, coef: Coefficient = 0.05, hidden: int = 128, begin: int = 0) -> None:
        super().__init__()
        self.declare("reward_prediction", coef=coef, begin=begin)
        self.hidden = checker(CLASSES["RewardPrediction"], self)("hidden", hidden)

    def setup(self, context: Context) -> None:
        self.actions = int(context.action_space.n)
        self.head = mlp(context.encoder.features_dim + self.actions, self.hidden, 3)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        chosen = functional.one_hot(batch.actions.long(), self.actions).float()  # (B, n_actions)
        guess = self.head(torch.cat([batch.output.features, chosen], dim=1))  # (B, 3)
        sign = batch.rewards.sign().long() + 1  # (B,) in 0, 1, 2
        counts = batch.shares.total(torch.bincount(sign, minlength=3))
        weight = torch.where(counts > 0, 1.0 / counts.clamp(min=1), 0.0).to(guess.dtype)
        if batch.shares.size == 1:
            return {"reward_prediction": functional.cross_entropy(guess, sign, weight=weight)}
        # As above over all ranks: their mean is divided by the classes that the minibatch has.
        lost = functional.cross_entropy(guess, sign, weight=weight, reduction="sum")
        return {"reward_prediction": lost * batch.shares.size / (counts > 0).sum()}
