"""Extras for tests: an encoder with NatureCNN's draws, losses with known terms, a flip."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import NatureCNN
from torch import Tensor, nn

from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.encoders.base import Encoder, EncoderOutput
from reprl.policy import heads

HERE = "tests.reprl.algorithms.parts"


class StockEncoder(Encoder):
    """SB3's NatureCNN under our interface: the same layers, made in the same order."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, 512)
        stock = NatureCNN(observation_space)
        self.cnn, self.linear = stock.cnn, stock.linear

    def encode(self, images: Tensor) -> EncoderOutput:
        feature_map = self.cnn[:-1](images)
        return EncoderOutput(self.linear(feature_map.flatten(1)), feature_map, None)


class Spread(AuxiliaryLoss):
    """A loss with a head, a momentum copy, its own noise, dropout, and neighbours in time."""

    def __init__(self, *, coef: Any = 0.0, begin: int = 0, reach: int = 2, bad: str = "") -> None:
        super().__init__()
        self.declare("spread", coef=coef, begin=begin)
        if bad == "weight":
            self.declare("ghost", coef=1.0)
        self.bad, self.reach = bad, reach
        self.dropout = nn.Dropout(0.5)

    def setup(self, context: Context) -> None:
        self.head = nn.Linear(context.encoder.features_dim, 8)
        self.slow = nn.Linear(context.encoder.features_dim, 8).requires_grad_(False)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        others, valid = batch.at(-self.reach)
        with torch.no_grad():
            target = self.slow(encoder.encode(batch.images(others)).features)
        noise = torch.randn(batch.values.shape, generator=batch.generator)
        guess = self.head(self.dropout(batch.output.features))
        loss = ((guess - target).square().mean(1) * valid * (1 + 0.1 * noise)).mean()
        if self.bad == "nan":
            loss = loss / (batch.rewards.abs().sum() * 0.0)
        return {"spread": loss} | ({"stray": loss} if self.bad == "term" else {})

    def after_step(self) -> None:
        with torch.no_grad():
            self.slow.weight.lerp_(self.head.weight, 0.1)


class Odd(AuxiliaryLoss):
    """One term of any name, with a habit that is refused, or, for "float", only unusual."""

    def __init__(self, *, term: str = "odd", habit: str = "") -> None:
        super().__init__()
        self.declare(term, coef=0.1)
        self.term, self.habit = term, habit

    def setup(self, context: Context) -> None:
        if self.habit == "hold":
            self.encoder = context.encoder

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Any]:
        if self.habit in ("float", "none") and len(batch.rewards) > 4:  # not in the rehearsal
            return {self.term: 0.0 if self.habit == "float" else None}
        if self.habit == "look":
            batch.at(-1)
        if self.habit == "heads":
            heads(batch.policy, batch.output.features)
        if not batch.wants(self.term):
            return {}
        return {self.term: batch.output.features.mean()}


class Flip(Augmentation):
    """Mirror half of the samples."""

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        mirrored = torch.rand(len(observations), generator=generator) < 0.5
        picture = torch.where(mirrored[:, None, None, None], observations.flip(-1), observations)
        return View(picture, mirrored)


class Counting(Augmentation):
    """Keeps a count, which no checkpoint would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        return View(observations)


ENCODER = {"_target_": f"{HERE}.StockEncoder"}
FLIP = {"_target_": f"{HERE}.Flip"}


def odd(**arguments: Any) -> dict[str, Any]:
    return {"_target_": f"{HERE}.Odd", **arguments}


def falling_rate(progress: float) -> float:
    """A schedule as a function that can be imported."""
    return 1e-3 * progress


def spread(**arguments: Any) -> dict[str, Any]:
    return {"_target_": f"{HERE}.Spread", **arguments}
