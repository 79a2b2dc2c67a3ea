"""SVEA's rule (Hansen et al. 2021): the value learns from augmented pictures, to clean targets."""

from __future__ import annotations

from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class Svea(AuxiliaryLoss):
    """The augmented half of the value's loss, or of Q's, to the targets of the clean half.

    On rollouts it is (V(f(s)) - return)^2, and `vf_coef` weighs the clean half. On replay, where
    SVEA comes from, it is the algorithm's own loss of Q(f(s), a), and the clean half counts 1. No
    target and no action depends on what f draws; the actor of continuous actions never sees f(s).
    """

    needs = frozenset({"value_loss"})

    def __init__(
        self, *, coef: Coefficient = 0.5, augmentation: Spec | None = None, begin: int = 0
    ) -> None:
        super().__init__()
        self.declare("svea", coef=coef, begin=begin)
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        self.views.setup(context)
        if context.q_learning:
            self.views.require_actions()

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        view = self.views.for_heads(batch, batch.originals)
        features = encoder.encode(batch.images(view.observations)).features
        return {"svea": batch.value_loss(features, view)}
