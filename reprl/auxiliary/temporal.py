"""Augmented temporal contrast (ATC): an observation finds the one a few steps later."""

from __future__ import annotations

from torch import Tensor, nn

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.contrastive import info_nce, negatives_of
from reprl.auxiliary.modules import Momentum, mlp
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


class TemporalContrastive(AuxiliaryLoss):
    """p = c + MLP(c), logits = W p . c'(t + offset), c' from a momentum encoder.

    Pairs that cross an episode end take no part. Gradient reaches the encoder through the
    anchor, the compressor, the residual MLP and W; never the momentum side.

    anchor "view": the pair is (observation `offset` steps ago, sample), which the memory's history
    offers for every sample even in A2C's short rollouts. anchor "batch": the pair is (sample,
    observation `offset` steps later), and the sample's encoding is reused, which is cheaper; under
    RAD the sample is encoded as it was, because its neighbours are never augmented.

    negatives: "all" or "local", as of Contrastive.
    """

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        offset: int = 3,
        latent: int = 256,
        hidden: int = 512,
        tau: float = 0.01,
        anchor: str = "view",
        augmentation: Spec | None = None,
        negatives: str = "all",
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare("temporal", coef=coef, begin=begin)
        check = checker(CLASSES["TemporalContrastive"], self)
        self.offset = check("offset", offset)
        self.reach = self.offset
        self.latent = check("latent", latent)
        self.hidden = check("hidden", hidden)
        self.tau = float(check("tau", tau))
        self.anchor = check("anchor", anchor)
        self.negatives = check("negatives", negatives)
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        self.views.setup(context)
        self.compressor = nn.Linear(context.encoder.features_dim, self.latent)
        self.forecast = mlp(self.latent, self.hidden, self.latent)
        self.bilinear = nn.Linear(self.latent, self.latent, bias=False)
        self.key_encoder = Momentum(context.encoder, tau=self.tau)
        self.key_compressor = Momentum(self.compressor, tau=self.tau)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        if self.anchor == "view":
            earlier, valid = batch.at(-self.offset)
            view = self.views(earlier, batch.generator).observations
            features = encoder.encode(batch.images(view)).features  # (B, F)
            later = batch.originals
        else:
            later, valid = batch.at(self.offset)
            output = batch.output
            if batch.augmented_from is not None:
                output = encoder.encode(batch.images(batch.originals))
            features = output.features
        positives = self.views(later, batch.generator).observations
        keys = self.key_compressor(self.key_encoder(batch.images(positives)))  # (B, D)
        code = self.compressor(features)  # (B, D)
        queries = self.bilinear(code + self.forecast(code))
        # A pair that is not valid is not even a negative: it may be an anchor's own picture.
        among = negatives_of(batch, self.negatives)
        return {"temporal": info_nce(queries[valid], keys[valid], among)}

    def after_step(self) -> None:
        self.key_encoder.move()
        self.key_compressor.move()
