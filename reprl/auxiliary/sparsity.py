"""Attention sparsity, the field notes' "encoder loss": how much the mask lets through."""

from __future__ import annotations

from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.schedules import Coefficient


def require_attention(loss: str, context: Context) -> tuple[int, ...]:
    """The mask's shape (K, h, w), or a UserError: this loss needs one."""
    attention = context.encoder.dry_output().attention
    if attention is None:
        raise UserError(
            f"auxiliary loss '{loss}' needs an encoder with an attention mask, but "
            f"{type(context.encoder).__name__} has none: choose one with attention=..."
        )
    return tuple(attention.shape[1:])


class Sparsity(AuxiliaryLoss):
    """Sum over the mask's cells, mean over the batch; gradient reaches what makes the mask."""

    def __init__(self, *, coef: Coefficient = 1e-4, begin: int = 0) -> None:
        super().__init__()
        self.declare("sparsity", coef=coef, begin=begin)

    def setup(self, context: Context) -> None:
        require_attention("sparsity", context)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        attention = batch.output.attention  # (B, K, h, w) in [0, 1]
        assert attention is not None
        return {"sparsity": attention.sum(dim=(1, 2, 3)).mean()}
