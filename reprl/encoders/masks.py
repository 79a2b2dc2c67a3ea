"""Attention masks: from a map of features (B, C, h, w) to one weight a cell (B, 1, h, w).

A mask only says how much each cell counts; `attention.py` decides what it is applied to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reprl.encoders.initialisation import RELU_GAIN, KeepsOwnWeights, orthogonal
from reprl.settings import CLASSES
from reprl.validation import checker


class Mask(KeepsOwnWeights):
    """The interface: built with the map's channels and size, weights >= 0 out."""

    bounded = True  # in [0, 1]; an unbounded mask gets no floor and is reported max-normalised

    def forward(self, features: Tensor) -> Tensor:
        raise AssertionError(f"{type(self).__name__} must define forward()")


class ConvMask(Mask):
    """1x1 convolutions: each cell is judged by its own features alone."""

    def __init__(self, *, channels: int, size: tuple[int, int], hidden: Sequence[int] = ()) -> None:
        super().__init__()
        widths = [channels, *checker(CLASSES["ConvMask"], self)("hidden", hidden)]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 1), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 1))
        orthogonal(self.net, RELU_GAIN)
        orthogonal(self.net[-1], 1.0)

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.net(features))


class MlpMask(Mask):
    """Two linear layers over the whole map: each cell is judged in the light of all others."""

    def __init__(self, *, channels: int, size: tuple[int, int], hidden: int = 256) -> None:
        super().__init__()
        hidden = checker(CLASSES["MlpMask"], self)("hidden", hidden)
        cells = size[0] * size[1]
        self.size = size
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(channels * cells, hidden), nn.ReLU(), nn.Linear(hidden, cells)
        )
        orthogonal(self.net, RELU_GAIN)
        orthogonal(self.net[-1], 1.0)

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.net(features)).unflatten(1, (1, *self.size))


class SelfAttentionMask(Mask):
    """Cells compare themselves with each other before each is judged by what it gathered."""

    def __init__(self, *, channels: int, size: tuple[int, int], width: int = 32) -> None:
        super().__init__()
        width = checker(CLASSES["SelfAttentionMask"], self)("width", width)
        self.embed = nn.Conv2d(channels, width, 1)
        self.place = nn.Parameter(0.02 * torch.randn(1, width, *size))
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.judge = nn.Linear(width, 1)
        orthogonal(self, 1.0)

    def forward(self, features: Tensor) -> Tensor:
        cells = (self.embed(features) + self.place).flatten(2).mT  # (B, h*w, width)
        query, key, value = self.mix(cells).chunk(3, dim=-1)
        gathered = F.scaled_dot_product_attention(query, key, value)
        logits = self.judge(cells + gathered)  # (B, h*w, 1)
        return torch.sigmoid(logits).mT.unflatten(2, features.shape[2:])


class SoftplusMask(Mask):
    """Free-lunch saliency: two 3x3 convolutions and a softplus; the mask may also amplify."""

    bounded = False

    def __init__(self, *, channels: int, size: tuple[int, int], width: int = 256) -> None:
        super().__init__()
        width = checker(CLASSES["SoftplusMask"], self)("width", width)
        self.net = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1)
        )
        orthogonal(self.net, RELU_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        return F.softplus(self.net(features))
