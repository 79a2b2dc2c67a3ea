"""Saliency-guided learning (SGQN): the most salient pixels alone should decide as all do.

Two terms: consistency of policy and value between the picture and its salient pixels, and a
predictor of which pixels those are, which must know it through drawings over the picture.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reprl.auxiliary.base import ALONE, AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import PixelHead
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.policy import heads
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker

NAME, ATTRIBUTION = "saliency_guided", "attribution"


class SaliencyGuided(AuxiliaryLoss):
    """Consistency KL(sg pi(s) || pi(s')) + 0.5 (sg V(s) - V(s'))^2, s' = the top 1 - rho of s.

    Pixels are ranked in each sample, over all frames, by the |gradient| of the value or of the
    taken action's log-probability: plain gradients, where the authors use guided backpropagation.
    The rest of the picture is black. Gradient reaches the encoder and the heads through s' only.

    With attribution_coef a second term, `attribution`: a head predicts the kept pixels of s from
    the features of a view f(s) (and the action, where that is what is explained), mean binary
    cross-entropy over cells of shrink x shrink pixels, 1 where a pixel of the cell is kept.
    Gradient reaches the encoder through f(s), and the head. Without it there is no such head.
    """

    needs = frozenset({"log_probs", "values", ALONE})

    def __init__(
        self,
        *,
        coef: Coefficient = 0.1,
        attribution_coef: Coefficient = 0.0,
        rho: float = 0.95,
        of: str = "value",
        shrink: int = 2,
        augmentation: Spec | None = "boxes_lines",
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare(NAME, coef=coef, begin=begin)
        check = checker(CLASSES["SaliencyGuided"], self)
        self.rho, self.of = check("rho", rho), check("of", of)
        self.shrink = check("shrink", shrink)
        self.predicts = check("attribution_coef", attribution_coef) != 0
        if self.predicts:
            self.declare(ATTRIBUTION, coef=attribution_coef, begin=begin)
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        if not self.predicts:
            return
        self.views.setup(context)
        if self.views.augmentation is not None and self.views.augmentation.moves:
            raise UserError(
                f"auxiliary loss '{NAME}': its augmentation moves what is in the picture, and the "
                "attribution would not follow: choose one that draws, such as boxes_lines, or none."
            )
        inputs = context.encoder.features_dim
        self.actions = int(context.action_space.n) if self.of == "action" else 0
        frames, height, width = context.observation_space.shape
        self.head = PixelHead(inputs + self.actions, (frames, height, width), shrink=self.shrink)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        images = batch.images()
        kept = self.salient(batch, encoder, images)
        terms = {}
        if batch.wants(NAME):
            terms[NAME] = self._consistency(batch, encoder, images * kept)
        if self.predicts and batch.wants(ATTRIBUTION):
            terms[ATTRIBUTION] = self._attribution(batch, encoder, kept)
        return terms

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

    def _consistency(self, batch: Batch, encoder: Encoder, masked: Tensor) -> Tensor:
        log_probs, values = heads(batch.policy, encoder.encode(masked).features)
        policy = functional.kl_div(
            log_probs, batch.log_probs.detach(), log_target=True, reduction="batchmean"
        )
        gap = batch.values.detach() - values
        return policy + 0.5 * gap.square().mean()

    def _attribution(self, batch: Batch, encoder: Encoder, kept: Tensor) -> Tensor:
        view = self.views(batch.observations, batch.generator).observations
        known = encoder.encode(batch.images(view)).features  # (B, F)
        if self.actions:
            taken = functional.one_hot(batch.actions, self.actions).to(known)
            known = torch.cat([known, taken], dim=1)
        target = functional.max_pool2d(kept, self.shrink)  # (B, stack, H/shrink, W/shrink)
        return functional.binary_cross_entropy_with_logits(self.head(known), target)
