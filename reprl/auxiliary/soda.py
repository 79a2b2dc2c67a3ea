"""SODA's rule (Hansen & Wang 2021): the code of an augmented picture foretells the clean one's."""

from __future__ import annotations

from torch import Tensor

from reprl.auxiliary.base import Batch
from reprl.auxiliary.momentum_prediction import MomentumPrediction
from reprl.auxiliary.self_prediction import normalized_distance
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient


class Soda(MomentumPrediction):
    """||norm(q(P(enc(f(s))))) - norm(P'(enc'(s)))||^2: the target is clean, a momentum copy's.

    The policy is trained on pictures as they are; gradient comes through the augmented side only.
    """

    term = "soda"

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
        super().__init__(
            coef=coef,
            latent=latent,
            hidden=hidden,
            tau=tau,
            augmentation=augmentation,
            begin=begin,
        )

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        view = self.views(batch.originals, batch.generator).observations
        guess = self.guessed(batch.images(view), encoder)  # (B, D)
        target = self.wanted(batch.images(batch.originals))  # (B, D)
        return {"soda": normalized_distance(guess, target)}
