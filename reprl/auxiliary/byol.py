"""BYOL-style: one view foretells another view's momentum code, without any negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from reprl.auxiliary.base import Batch
from reprl.auxiliary.momentum_prediction import MomentumPrediction
from reprl.auxiliary.self_prediction import normalized_distance
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class Byol(MomentumPrediction):
    """Mean over both directions of ||norm(q(z1)) - norm(z2')||^2, z2' from momentum copies.

    Without the authors' batch normalisation, which would tie the samples of a batch together. The
    views are of the pictures as they were before RAD.
    """

    term = "byol"

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        latent: int = 128,
        hidden: int = 256,
        tau: float = 0.01,
        augmentation: Spec | None = None,
        begin: int = 0,
    ) -> None:
        super().__init__(
            coef=coef,
            latent=latent,
            hidden=hidden,
            tau=tau,
            augmentation=augmentation,
            begin=begin,
        )

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        views = [self.views(batch.originals, batch.generator).observations for _ in range(2)]
        images = batch.images(torch.cat(views))  # (2B, stack, H, W)
        guess = self.guessed(images, encoder)  # (2B, D)
        first, second = self.wanted(images).chunk(2)
        return {"byol": normalized_distance(guess, torch.cat([second, first]))}
