"""VAE: the pixels back from a noisy code of the features, whose shape is held to a normal one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import PixelHead
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)) in nats: sum over the code (B, D), mean over the batch."""
    terms = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
    return terms.sum(dim=1).mean()


class VariationalAutoencoder(AuxiliaryLoss):
    """Two terms: `vae`, squared error per pixel, and `vae_kl`, how far the code is from N(0, 1).

    The code is drawn from what two linear heads read from the features. Gradient reaches the
    encoder, the heads and the painting head.
    """

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        kl_coef: Coefficient = 1e-5,
        latent: int = 64,
        shrink: int = 2,
        begin: int = 0,
    ) -> None:
        super().__init__()
        check = checker(CLASSES["VariationalAutoencoder"], self)
        self.declare("vae", coef=coef, begin=begin)
        self.declare("vae_kl", coef=check("kl_coef", kl_coef), begin=begin)
        self.latent = check("latent", latent)
        self.shrink = check("shrink", shrink)

    def setup(self, context: Context) -> None:
        frames, height, width = context.observation_space.shape
        self.mean = nn.Linear(context.encoder.features_dim, self.latent)
        self.log_variance = nn.Linear(context.encoder.features_dim, self.latent)
        self.head = PixelHead(self.latent, (frames, height, width), shrink=self.shrink)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        features = batch.output.features
        mean = self.mean(features)  # (B, D)
        log_variance = self.log_variance(features).clamp(-10, 10)  # exp() stays a number
        device = batch.generator.device
        noise = torch.randn(mean.shape, generator=batch.generator, device=device).to(mean)
        code = mean + noise * torch.exp(0.5 * log_variance)
        return {
            "vae": self.head.error(code, batch.images()),
            "vae_kl": divergence(mean, log_variance),
        }
