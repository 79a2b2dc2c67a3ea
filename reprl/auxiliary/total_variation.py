"""Total variation of the mask: neighbouring cells should agree, so that a mask has no crumbs."""

from __future__ import annotations

from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.sparsity import require_attention
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class TotalVariation(AuxiliaryLoss):
    """|difference| of neighbours below and beside, summed over the cells, mean over the batch.

    Gradient reaches what makes the mask.
    """

    def __init__(self, *, coef: Coefficient = 1e-4, begin: int = 0) -> None:
        super().__init__()
        self.declare("total_variation", coef=coef, begin=begin)

    def setup(self, context: Context) -> None:
        require_attention("total_variation", context)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        attention = batch.output.attention  # (B, K, h, w) in [0, 1]
        assert attention is not None
        down = attention.diff(dim=2).abs().sum(dim=(1, 2, 3))
        right = attention.diff(dim=3).abs().sum(dim=(1, 2, 3))
        return {"total_variation": (down + right).mean()}
