"""SODA's rule (Hansen & Wang 2021): the code of an augmented picture foretells the clean one's."""

from __future__ import annotations

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


class Soda(AuxiliaryLoss):
    """||norm(q(P(enc(f(s))))) - norm(P'(enc'(s)))||^2: the target is clean, a momentum copy's.

    The policy is trained on pictures as they are; gradient reaches encoder, projection P and
    predictor q through the augmented side only.
    """

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        latent: int = 128,
        hidden: int = 256,
        tau: float = 0.005,
        augmentation: Spec | None = None,
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare("soda", coef=coef, begin=begin)
        check = checker(CLASSES["Soda"], self)
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
        view = self.views(batch.originals, batch.generator).observations
        features = encoder.encode(batch.images(view)).features
        guess = self.predictor(self.projection(features))  # (B, D)
        target = self.key_projection(self.key_encoder(batch.images(batch.originals)))  # (B, D)
        return {"soda": normalized_distance(guess, target)}

    def after_step(self) -> None:
        self.key_encoder.move()
        self.key_projection.move()
