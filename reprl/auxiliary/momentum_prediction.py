"""What BYOL and SODA share: a predictor on a projection, held to a momentum copy's code."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Context
from reprl.auxiliary.modules import Momentum, mlp
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import MOMENTUM_PREDICTION
from reprl.validation import checker


class MomentumPrediction(AuxiliaryLoss):
    """Networks of ||norm(q(P(enc(x)))) - norm(P'(enc'(y)))||^2; which pictures, a subclass says.

    Gradient reaches encoder, projection P and predictor q; never the momentum side.
    """

    term: ClassVar[str]

    def __init__(
        self,
        *,
        coef: Coefficient,
        latent: int,
        hidden: int,
        tau: float,
        augmentation: Spec | None,
        begin: int,
    ) -> None:
        super().__init__()
        self.declare(self.term, coef=coef, begin=begin)
        check = checker(MOMENTUM_PREDICTION, self)
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

    def guessed(self, images: Tensor, encoder: Encoder) -> Tensor:
        """The codes (B, D) that the predictor foretells from pictures."""
        guess: Tensor = self.predictor(self.projection(encoder.encode(images).features))
        return guess

    def wanted(self, images: Tensor) -> Tensor:
        """The momentum copies' codes (B, D) of pictures, without gradient."""
        target: Tensor = self.key_projection(self.key_encoder(images))
        return target

    def after_step(self) -> None:
        self.key_encoder.move()
        self.key_projection.move()
