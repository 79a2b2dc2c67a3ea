"""NatureCNN as SB3 builds it, and the same layers padded so that cells reach the border."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
from torch import nn

from reprl.components import Spec
from reprl.encoders.convolutional import ConvEncoder


def nature_trunk(channels: int, padding: tuple[int, int, int] = (0, 0, 0)) -> nn.Sequential:
    """The three convolutions of Mnih et al. 2015, in SB3's order."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, stride=4, padding=padding[0]),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2, padding=padding[1]),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1, padding=padding[2]),
        nn.ReLU(),
    )


class Nature(ConvEncoder):
    """SB3's NatureCNN bit for bit: 84 px give 7x7 cells centred at 17.5 ... 65.5."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        *,
        features_dim: int = 512,
        attention: Spec | None = None,
        dropout: float = 0.0,
        input: str = "frames",
        contrast: int = 0,
        threshold: float = 0.0,
    ) -> None:
        super().__init__(
            observation_space,
            nature_trunk,
            features_dim=features_dim,
            attention=attention,
            dropout=dropout,
            input=input,
            contrast=contrast,
            threshold=threshold,
        )


class NaturePadded(ConvEncoder):
    """The same kernels with padding: 84 px give 10x10 cells centred at 3.5 ... 75.5."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        *,
        features_dim: int = 512,
        attention: Spec | None = None,
        dropout: float = 0.0,
        input: str = "frames",
        contrast: int = 0,
        threshold: float = 0.0,
    ) -> None:
        super().__init__(
            observation_space,
            partial(nature_trunk, padding=(2, 1, 1)),
            features_dim=features_dim,
            attention=attention,
            dropout=dropout,
            input=input,
            contrast=contrast,
            threshold=threshold,
        )
