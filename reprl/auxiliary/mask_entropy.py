"""Mask entropy: pushes each cell of the mask to open or shut, or the map to few cells."""

from __future__ import annotations

import torch
from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.sparsity import require_attention
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


class MaskEntropy(AuxiliaryLoss):
    """Entropy in nats, mean over the batch; gradient reaches what makes the mask.

    of "cells": each cell as a coin, summed over the cells, so that none stays half open. of "map":
    the map's weights as shares of their sum, so that few cells hold most of it.
    """

    def __init__(self, *, coef: Coefficient = 1e-4, of: str = "cells", begin: int = 0) -> None:
        super().__init__()
        self.declare("mask_entropy", coef=coef, begin=begin)
        self.of = checker(CLASSES["MaskEntropy"], self)("of", of)

    def setup(self, context: Context) -> None:
        require_attention("mask_entropy", context)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        attention = batch.output.attention  # (B, K, h, w) in [0, 1]
        assert attention is not None
        if self.of == "cells":
            entropy = _surprise(attention) + _surprise(1 - attention)
            return {"mask_entropy": entropy.sum(dim=(1, 2, 3)).mean()}
        cells = attention.flatten(2)  # (B, K, h*w)
        share = cells / cells.sum(dim=2, keepdim=True).clamp(min=1e-8)
        return {"mask_entropy": _surprise(share).sum(dim=2).mean()}


def _surprise(chance: Tensor) -> Tensor:
    """-p log p, 0 at p = 0 with a finite slope."""
    return -chance * torch.log(chance.clamp(min=1e-8))
