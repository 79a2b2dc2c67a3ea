"""Residual blocks of the later ResNets: group normalisation, swish, squeeze-and-excitation.

A stage is a convolution, a pooling by half and its blocks; self-attention between the places of a
map comes after the last stage, if asked for. Convolutions may be separable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

from reprl.components import Spec
from reprl.encoders.convolutional import ConvEncoder
from reprl.encoders.initialisation import KeepsOwnWeights
from reprl.settings import CLASSES
from reprl.validation import checker, flag

GROUPS = 8  # of channels that are normalised together


def he(module: nn.Module) -> None:
    """He's first weights for every convolution and linear layer: the variance survives a ReLU."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def convolution(before: int, after: int, *, separable: bool) -> nn.Module:
    """A 3x3 convolution, or one of each channel by itself and a mixture of the channels."""
    if not separable:
        return nn.Conv2d(before, after, 3, padding=1, bias=False)
    return nn.Sequential(
        nn.Conv2d(before, before, 3, padding=1, groups=before, bias=False),
        nn.Conv2d(before, after, 1, bias=False),
    )


def normalisation(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(GROUPS, channels), channels)


class Squeeze(nn.Module):
    """Squeeze-and-excitation (Hu et al. 2018): each channel weighed by the whole map."""

    def __init__(self, channels: int, *, reduction: int = 4) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.net = nn.Sequential(
            *(nn.Linear(channels, inner), nn.ReLU(), nn.Linear(inner, channels), nn.Sigmoid())
        )

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = self.net(x.mean((2, 3)))  # (B, C)
        return x * weights[:, :, None, None]


class PlaceAttention(KeepsOwnWeights):
    """x + scale * attention of every place to every other (SAGAN's); scale begins at 0."""

    redraws: ClassVar[bool] = True

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = max(1, channels // 8)
        self.ask = nn.Conv2d(channels, self.inner, 1, bias=False)
        self.answer = nn.Conv2d(channels, self.inner, 1, bias=False)
        self.say = nn.Conv2d(channels, channels, 1, bias=False)
        self.scale = nn.Parameter(torch.zeros(()))
        he(self)

    def forward(self, x: Tensor) -> Tensor:
        ask, answer, say = (layer(x).flatten(2) for layer in (self.ask, self.answer, self.say))
        weights = torch.softmax(ask.transpose(1, 2) @ answer / self.inner**0.5, dim=2)  # (B, P, P)
        return x + self.scale * (say @ weights.transpose(1, 2)).view_as(x)


class XResBlock(KeepsOwnWeights):
    """x + norm(conv(swish(norm(conv(x))))), squeezed if asked for; it begins as the identity."""

    redraws: ClassVar[bool] = True

    def __init__(self, channels: int, *, separable: bool, squeeze: bool) -> None:
        super().__init__()
        last = normalisation(channels)
        self.net = nn.Sequential(
            convolution(channels, channels, separable=separable),
            normalisation(channels),
            nn.SiLU(),
            convolution(channels, channels, separable=separable),
            last,
            *([Squeeze(channels)] if squeeze else []),
        )
        he(self.net)
        nn.init.zeros_(last.weight)
        self.after = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.after(x + self.net(x))
        return found


class Stem(KeepsOwnWeights):
    """Convolution, normalisation, swish and a pooling by half: the beginning of a stage."""

    redraws: ClassVar[bool] = True

    def __init__(self, before: int, after: int, *, separable: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(
            convolution(before, after, separable=separable),
            *(normalisation(after), nn.SiLU(), nn.MaxPool2d(3, 2, padding=1)),
        )
        he(self.net)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.net(x)
        return found


def xresnet_trunk(
    channels: int,
    *,
    stages: Sequence[int],
    blocks: int,
    separable: bool,
    squeeze: bool,
    self_attention: bool,
) -> nn.Sequential:
    """Stages of these widths, each half the size of the one before."""
    layers: list[nn.Module] = []
    for place, after in enumerate(stages):
        # Frames of a stack are not to be told apart channel by channel: the first layer mixes.
        layers.append(Stem(channels, after, separable=separable and place > 0))
        layers += [XResBlock(after, separable=separable, squeeze=squeeze) for _ in range(blocks)]
        channels = after
    if self_attention:
        layers.append(PlaceAttention(channels))
    return nn.Sequential(*layers)


class XResNet(ConvEncoder):
    """84 px and three stages give 11x11 cells centred at 0, 8 ... 80, as of `impala`."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        *,
        stages: Sequence[int] = (16, 32, 32),
        blocks: int = 1,
        separable: bool = False,
        squeeze: bool = True,
        self_attention: bool = False,
        global_pool: bool = False,
        features_dim: int = 256,
        attention: Spec | None = None,
        dropout: float = 0.0,
        input: str = "frames",
        contrast: int = 0,
        threshold: float = 0.0,
    ) -> None:
        check = checker(CLASSES["XResNet"], self)
        check("stages", list(stages) if isinstance(stages, tuple) else stages)
        trunk = partial(
            xresnet_trunk,
            stages=stages,
            blocks=check("blocks", blocks),
            separable=flag("separable", separable),
            squeeze=flag("squeeze", squeeze),
            self_attention=flag("self_attention", self_attention),
        )
        super().__init__(
            observation_space,
            trunk,
            features_dim=features_dim,
            global_pool=global_pool,
            attention=attention,
            dropout=dropout,
            input=input,
            contrast=contrast,
            threshold=threshold,
        )
