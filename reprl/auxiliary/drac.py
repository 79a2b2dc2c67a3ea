"""DrAC: the policy and the value should not change when only the picture does."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class DrAC(AuxiliaryLoss):
    """-log pi(a | f(s)) + 0.5 (sg V(s) - V(f(s)))^2 with a drawn from pi(. | s).

    Only the augmented side f(s) carries gradient: to the encoder and to the policy's own heads.
    """

    needs = frozenset({"log_probs", "values"})

    term: ClassVar[str] = "drac"

    def __init__(
        self, *, coef: Coefficient = 0.1, augmentation: Spec | None = None, begin: int = 0
    ) -> None:
        super().__init__()
        self.declare(self.term, coef=coef, begin=begin)
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        self.views.setup(context)
        self.views.require_actions()

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        view = self.views.for_heads(batch, batch.observations)
        features = encoder.encode(batch.images(view.observations)).features
        log_probs, values = batch.heads(features)
        chances = batch.log_probs.detach().exp().to(batch.generator.device)
        actions = torch.multinomial(chances, 1, generator=batch.generator).squeeze(1)  # (B,)
        actions = self.views.actions(view, actions.to(log_probs.device))
        surprise = -log_probs.gather(1, actions[:, None]).squeeze(1)  # (B,)
        gap = batch.values.detach() - values
        return {self.term: (surprise + 0.5 * gap.square()).mean()}
