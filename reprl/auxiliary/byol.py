"""BYOL-style: one view foretells another view's momentum code, without any negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import Momentum, mlp
from reprl.auxiliary.self_prediction import normalized_distance
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


class Byol(AuxiliaryLoss):
    """Mean over both directions of ||norm(q(z1)) - norm(z2')||^2, z2' from momentum copies.

    Without the authors' batch normalisation, which would tie the samples of a batch together.
    Gradient reaches encoder, projection and predictor q; never the momentum side. The views are of
    the pictures as they were before RAD.
    """

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
        super().__init__()
        self.declare("byol", coef=coef, begin=begin)
        check = checker(CLASSES["Byol"], self)
        self.latent = check("latent", latent)
        self.hidden = check("hidden", hidden)
        self.tau = float(check("tau", tau))
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        self.views.setup(context)
        self.projection = mlp(context.encoder.features_dim, self.hidden, self.latent)
        self.predictor = mlp(self.latent, self.hidden, self.latent)
        self.key_encoder = Momentum(context.encoder, tau=self.tau)
        self.key_projection = Momentum(self.projection, tau=self.tau)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        views = [self.views(batch.originals, batch.generator).observations for _ in range(2)]
        images = batch.images(torch.cat(views))  # (2B, stack, H, W)
        guess = self.predictor(self.projection(encoder.encode(images).features))  # (2B, D)
        target = self.key_projection(self.key_encoder(images))  # (2B, D)
        first, second = target.chunk(2)
        return {"byol": normalized_distance(guess, torch.cat([second, first]))}

    def after_step(self) -> None:
        self.key_encoder.move()
        self.key_projection.move()
