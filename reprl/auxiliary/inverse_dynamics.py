"""Inverse dynamics: which action led from one observation to the next."""

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


class InverseDynamics(AuxiliaryLoss):
    """Cross-entropy of the action before this observation, read from both sides of it.

    What the agent cannot influence need not be in the features for this. Pairs that cross an
    episode start take no part. Gradient reaches the encoder at both times, and this head.
    """

    reach = 1
    needs = frozenset({"actions_at"})

    def __init__(self, *, coef: Coefficient = 0.05, hidden: int = 256, begin: int = 0) -> None:
        super().__init__()
        self.declare("inverse_dynamics", coef=coef, begin=begin)
        self.hidden = checker(CLASSES["InverseDynamics"], self)("hidden", hidden)

    def setup(self, context: Context) -> None:
        features = context.encoder.features_dim
        self.head = mlp(2 * features, self.hidden, int(context.action_space.n))

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        earlier, valid = batch.at(-1)
        output = batch.output
        if batch.augmented_from is not None:  # neighbours are never augmented
            output = encoder.encode(batch.images(batch.originals))
        before = encoder.encode(batch.images(earlier[valid])).features  # (V, F)
        guess = self.head(torch.cat([before, output.features[valid]], dim=1))  # (V, n_actions)
        if not len(guess):
            return {"inverse_dynamics": guess.sum()}
        taken = batch.actions_at(-1)[0][valid]  # (V,)
        return {"inverse_dynamics": functional.cross_entropy(guess, taken.long())}
