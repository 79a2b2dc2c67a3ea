"""Saliency-guided consistency (SGQN): the most salient pixels alone should decide as all do."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch
from reprl.encoders.base import Encoder
from reprl.policy import heads
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker

NAME = "saliency_guided"


class SaliencyGuided(AuxiliaryLoss):
    """KL(sg pi(s) || pi(s')) + 0.5 (sg V(s) - V(s'))^2, s' = the top 1 - rho of s's pixels.

    Pixels are ranked in each sample, over all frames, by the |gradient| of the value or of the
    taken action's log-probability: plain gradients, where the authors use guided backpropagation;
    their second part, a predictor of the attribution, is left out. The rest of the picture is
    black. Gradient reaches the encoder and the heads through s' only.
    """

    needs = frozenset({"log_probs", "values"})

    def __init__(
        self, *, coef: Coefficient = 0.1, rho: float = 0.95, of: str = "value", begin: int = 0
    ) -> None:
        super().__init__()
        self.declare(NAME, coef=coef, begin=begin)
        check = checker(CLASSES["SaliencyGuided"], self)
        self.rho, self.of = check("rho", rho), check("of", of)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        images = batch.images()
        kept = self.salient(batch, encoder, images)
        features = encoder.encode(images * kept).features
        log_probs, values = heads(batch.policy, features)
        policy = functional.kl_div(
            log_probs, batch.log_probs.detach(), log_target=True, reduction="batchmean"
        )
        gap = batch.values.detach() - values
        return {NAME: policy + 0.5 * gap.square().mean()}

    def salient(self, batch: Batch, encoder: Encoder, images: Tensor) -> Tensor:
        """1 for the pixels kept, (B, stack, H, W)."""
        seen = images.detach().clone().requires_grad_()
        log_probs, values = heads(batch.policy, encoder.encode(seen).features)
        chosen = values if self.of == "value" else log_probs.gather(1, batch.actions[:, None])
        (slope,) = torch.autograd.grad(chosen.sum(), seen)
        strength = slope.abs().flatten(1)  # (B, stack*H*W)
        count = max(1, round((1 - self.rho) * strength.shape[1]))
        least = strength.topk(count, dim=1).values[:, -1:]
        return (strength >= least).to(images).view_as(images)
