"""The IMPALA CNN: three blocks of convolution, pooling and two residual branches."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
from torch import Tensor, nn

from reprl.components import Spec
from reprl.encoders.convolutional import ConvEncoder
from reprl.encoders.initialisation import KeepsOwnWeights, orthogonal
from reprl.settings import CLASSES
from reprl.validation import checker

CHANNELS = (16, 32, 32)


class Residual(KeepsOwnWeights):
    """x + conv(relu(conv(relu(x)))).

    With SB3's gain of sqrt(2) each branch would double the variance, six of them multiply the
    features' scale by 8 before any learning; gain 1 (the scale of the authors' Glorot) does not.
    """

    redraws: ClassVar[bool] = True
    most_gain: ClassVar[float] = 1.0

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        orthogonal(self.net, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.net(x)


def impala_trunk(channels: int, *, width: float) -> nn.Sequential:
    """Three blocks, each half the size of the one before."""
    layers: list[nn.Module] = []
    for after in (round(c * width) for c in CHANNELS):
        layers += [nn.Conv2d(channels, after, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        layers += [Residual(after), Residual(after)]
        channels = after
    return nn.Sequential(*layers, nn.ReLU())


class Impala(ConvEncoder):
    """84 px give 11x11 cells centred at 0, 8 ... 80; wider and pooled for generalization."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        *,
        width: float = 1,
        global_pool: bool = False,
        features_dim: int = 256,
        attention: Spec | None = None,
        dropout: float = 0.0,
        input: str = "frames",
        contrast: int = 0,
        threshold: float = 0.0,
    ) -> None:
        width = checker(CLASSES["Impala"], self)("width", width)
        super().__init__(
            observation_space,
            partial(impala_trunk, width=width),
            features_dim=features_dim,
            global_pool=global_pool,
            attention=attention,
            dropout=dropout,
            input=input,
            contrast=contrast,
            threshold=threshold,
        )
