"""SPR (self-predictive representations): the map of now, foretold from a few steps ago."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import Momentum
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


def normalized_distance(guess: Tensor, target: Tensor) -> Tensor:
    """||guess/|guess| - target/|target|||^2 of rows (B, D), their mean; 0 without rows."""
    if not len(guess):
        return guess.sum()  # zero, and still part of the graph
    return (2 - 2 * functional.cosine_similarity(guess, target.detach(), dim=1)).mean()


class SelfPrediction(AuxiliaryLoss):
    """Sum over k = 1..steps of ||norm(p(t+k)) - norm(target(t+k))||^2.

    The feature map `steps` ago is carried forward by a small convolutional model of the actions
    taken since; p is its projection behind a predictor, the target that of a momentum encoder. The
    sample is the last of its steps, because the past is in memory even in A2C's short rollouts.
    Stretches that cross an episode end take no part. Gradient reaches the encoder through the
    first map, the model, the projection and the predictor; never the momentum side.
    """

    needs = frozenset({"actions_at"})

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        steps: int = 5,
        latent: int = 256,
        tau: float = 0.01,
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare("spr", coef=coef, begin=begin)
        check = checker(CLASSES["SelfPrediction"], self)
        self.steps = check("steps", steps)
        self.reach = self.steps
        self.latent = check("latent", latent)
        self.tau = float(check("tau", tau))

    def setup(self, context: Context) -> None:
        _, channels, height, width = context.encoder.dry_output().feature_map.shape
        self.actions = int(context.action_space.n)
        self.model = nn.Sequential(
            nn.Conv2d(channels + self.actions, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
        )
        self.projection = nn.Linear(channels * height * width, self.latent)
        self.predictor = nn.Linear(self.latent, self.latent)
        self.key_encoder = Momentum(context.encoder, tau=self.tau)
        self.key_projection = Momentum(self.projection, tau=self.tau)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        start, valid = batch.at(-self.steps)
        cells = rescaled(encoder.encode(batch.images(start[valid])).feature_map)  # (V, C, h, w)
        total = cells.sum() * 0.0
        for k in range(-self.steps, 0):
            cells = rescaled(self.model(self._with_action(cells, batch.actions_at(k)[0][valid])))
            guess = self.predictor(self.projection(cells.flatten(1)))  # (V, D)
            later = batch.originals if k == -1 else batch.at(k + 1)[0]
            total = total + normalized_distance(guess, self._target(batch.images(later[valid])))
        return {"spr": total}

    def _with_action(self, cells: Tensor, actions: Tensor) -> Tensor:
        """Maps (V, C, h, w) and a plane for each action: 1 for the one taken (V,)."""
        chosen = functional.one_hot(actions.long(), self.actions).to(cells)  # (V, n_actions)
        planes = chosen[:, :, None, None].expand(-1, -1, *cells.shape[2:])
        return torch.cat([cells, planes], dim=1)

    @torch.no_grad()
    def _target(self, images: Tensor) -> Tensor:
        encoder: Any = self.key_encoder.copy
        cells = rescaled(encoder.encode(images).feature_map)
        target: Tensor = self.key_projection(cells.flatten(1))
        return target

    def after_step(self) -> None:
        self.key_encoder.move()
        self.key_projection.move()


def rescaled(cells: Tensor) -> Tensor:
    """Maps (B, C, h, w) with each sample's smallest value at 0 and its largest at 1."""
    flat = cells.flatten(1)
    if not len(flat):
        return cells
    low, high = flat.amin(1)[:, None, None, None], flat.amax(1)[:, None, None, None]
    return (cells - low) / (high - low + 1e-5)
