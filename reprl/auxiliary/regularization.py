"""Feature-map regularization: keeps the activations the mask works on small."""

from __future__ import annotations

from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class Regularization(AuxiliaryLoss):
    """Squared feature map, summed over channels and cells, mean over the batch.

    A sum, so its coefficient is small: the field notes found that 1e-4 makes training crawl.
    """

    def __init__(self, *, coef: Coefficient = 1e-5, begin: int = 0) -> None:
        super().__init__()
        self.declare("regularization", coef=coef, begin=begin)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        feature_map = batch.output.feature_map  # (B, C, h, w)
        return {"regularization": feature_map.square().sum(dim=(1, 2, 3)).mean()}
