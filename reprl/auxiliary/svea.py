"""SVEA's rule (Hansen et al. 2021): the value learns from augmented pictures, to clean targets."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class Svea(AuxiliaryLoss):
    """(V(f(s)) - return)^2, the augmented half of the value loss; `vf_coef` weighs the clean half.

    The return is the rollout's, of pictures as they were, and the policy is trained on those only:
    no target and no action ever depends on what an augmentation drew.
    """

    needs = frozenset({"returns", "values"})

    def __init__(
        self, *, coef: Coefficient = 0.5, augmentation: Spec | None = None, begin: int = 0
    ) -> None:
        super().__init__()
        self.declare("svea", coef=coef, begin=begin)
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        self.views.setup(context)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        view = self.views.for_heads(batch, batch.originals)
        _, values = batch.heads(encoder.encode(batch.images(view.observations)).features)
        return {"svea": functional.mse_loss(values, batch.returns)}
