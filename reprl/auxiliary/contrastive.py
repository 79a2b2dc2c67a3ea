"""Contrastive loss in the manner of CURL: two views of one observation find each other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import Momentum
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.reduction import Reduction
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


def info_nce(queries: Tensor, keys: Tensor, shares: Reduction | None = None) -> Tensor:
    """Cross-entropy of each query picking its own key out of the batch's.

    Both are (B, D), or (P, B, D) for P independent places whose mean is taken. With `shares` the
    keys of all ranks are candidates, and the mean of the ranks' losses is that of all queries.
    """
    if shares is not None and shares.size > 1:
        return _shared_info_nce(queries, keys, shares)
    if queries.shape[-2] == 0:
        return queries.sum()  # no pair in this batch: zero, and still part of the graph
    logits = queries @ keys.mT  # (..., B, B)
    logits = logits - logits.amax(dim=-1, keepdim=True)
    own = torch.arange(logits.shape[-1], device=logits.device).expand(logits.shape[:-1])
    return functional.cross_entropy(logits.flatten(0, -2), own.flatten())


def _shared_info_nce(queries: Tensor, keys: Tensor, shares: Reduction) -> Tensor:
    # Also with no pair here: the others wait for the keys of this share.
    every, first = shares.candidates(keys)  # (..., N, D)
    if every.shape[-2] == 0:
        return queries.sum()
    logits = queries @ every.mT  # (..., B, N)
    logits = logits - logits.amax(dim=-1, keepdim=True)
    own = first + torch.arange(queries.shape[-2], device=logits.device).expand(logits.shape[:-1])
    lost = functional.cross_entropy(logits.flatten(0, -2), own.flatten(), reduction="sum")
    places = math.prod(queries.shape[:-2])
    return lost * (shares.size / (places * every.shape[-2]))


def negatives_of(batch: Batch, negatives: str) -> Reduction | None:
    """Whose keys are a query's negatives: those of all ranks, or of its own only."""
    return batch.shares if negatives == "all" else None


class Contrastive(AuxiliaryLoss):
    """logits = q W k^T, k from a momentum encoder; gradient reaches encoder, projection and W.

    anchor "view": the query is a fresh augmented view, encoded again, as CURL does. anchor
    "batch": the query is the minibatch as the policy saw it, already encoded, which is cheaper.
    Under RAD both make their views of the pictures as they were: what RAD drew on a picture would
    tell it apart in both views, and the encoder would learn to look for that.

    negatives "all": with several ranks, the rest of the whole minibatch; "local": of the rank's
    share of it.
    """

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        feature: int = 50,
        tau: float = 0.05,
        anchor: str = "view",
        augmentation: Spec | None = None,
        negatives: str = "all",
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare("contrastive", coef=coef, begin=begin)
        check = checker(CLASSES["Contrastive"], self)
        self.feature = check("feature", feature)
        self.tau = float(check("tau", tau))
        self.anchor = check("anchor", anchor)
        self.negatives = check("negatives", negatives)
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        self.views.setup(context)
        self.projection = nn.Sequential(
            nn.Linear(context.encoder.features_dim, self.feature), nn.LayerNorm(self.feature)
        )
        self.bilinear = nn.Linear(self.feature, self.feature, bias=False)
        self.key_encoder = Momentum(context.encoder, tau=self.tau)
        self.key_projection = Momentum(self.projection, tau=self.tau)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        if self.anchor == "view" or batch.augmented_from is not None:
            view = self.views(batch.originals, batch.generator).observations
            features = encoder.encode(batch.images(view)).features  # (B, F)
        else:
            features = batch.output.features
        other = self.views(batch.originals, batch.generator).observations
        keys = self.key_projection(self.key_encoder(batch.images(other)))  # (B, D)
        queries = self.projection(features)  # (B, D)
        # q W k^T: the learned W is applied to the query's side, which carries the gradient.
        among = negatives_of(batch, self.negatives)
        return {"contrastive": info_nce(self.bilinear(queries), keys, among)}

    def after_step(self) -> None:
        self.key_encoder.move()
        self.key_projection.move()
