"""Reconstruction: the pixels back from the features, so that these forget nothing visible."""

from __future__ import annotations

from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import PixelHead
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


class Reconstruction(AuxiliaryLoss):
    """Mean squared error per pixel of the stack, area-averaged by `shrink`.

    Gradient reaches the encoder and the painting head.
    """

    def __init__(self, *, coef: Coefficient = 0.05, shrink: int = 2, begin: int = 0) -> None:
        super().__init__()
        self.declare("reconstruction", coef=coef, begin=begin)
        self.shrink = checker(CLASSES["Reconstruction"], self)("shrink", shrink)

    def setup(self, context: Context) -> None:
        frames, height, width = context.observation_space.shape
        self.head = PixelHead(
            context.encoder.features_dim, (frames, height, width), shrink=self.shrink
        )

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        return {"reconstruction": self.head.error(batch.output.features, batch.images())}
