"""Attention masks: from a map of features (B, C, h, w) to one weight a cell (B, 1, h, w).

A mask only says how much each cell counts; `attention.py` decides what it is applied to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reprl.encoders.initialisation import RELU_GAIN, KeepsOwnWeights, orthogonal
from reprl.instances import RemembersArguments
from reprl.settings import CLASSES
from reprl.validation import checker

FAINT_GAIN = 0.01  # of a last layer whose first answer is its bias


class Mask(RemembersArguments, KeepsOwnWeights):
    """The interface: built with the map's channels and size, weights >= 0 out."""

    bounded = True  # in [0, 1]; an unbounded mask gets no floor and is reported max-normalised
    of_change = False  # its branch sees only what changed, and gives how much as first channel

    def forward(self, features: Tensor) -> Tensor:
        raise AssertionError(f"{type(self).__name__} must define forward()")


def _begin_at(layer: nn.Module, opening: float) -> None:
    """Initialise a mask's last layer so that every cell begins about this open."""
    assert isinstance(layer, nn.Conv2d)
    assert layer.bias is not None
    orthogonal(layer, FAINT_GAIN)
    nn.init.constant_(layer.bias, math.log(opening / (1 - opening)))


class ConvMask(Mask):
    """1x1 convolutions: each cell is judged by its own features alone.

    `opening` is how open every cell is before any learning, 0.5 for half; None leaves that to the
    first weights.
    """

    def __init__(
        self,
        *,
        channels: int,
        size: tuple[int, int],
        hidden: Sequence[int] = (),
        opening: float | None = None,
    ) -> None:
        super().__init__()
        check = checker(CLASSES["ConvMask"], self)
        opening = check("opening", opening)
        widths = [channels, *check("hidden", hidden)]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 1), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 1))
        orthogonal(self.net, RELU_GAIN)
        orthogonal(self.net[-1], 1.0)
        if opening is not None:
            _begin_at(self.net[-1], opening)

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.net(features))


class MotionMask(Mask):
    """How surely a cell changed, times a learned weight: a cell in which nothing moved is 0.

    (1 - exp(-sensitivity * change)) * weight: only change can light a cell, and only the cell it
    is in. The weight, in [0, 1], is what is learned: which change matters, judged by the signed
    differences around the cell. It starts at `opening`. With a sensitivity of 4 the ball of
    Breakout, less than two pixels of 84 x 84, counts as nine tenths of a sure change.
    """

    of_change = True

    def __init__(
        self,
        *,
        channels: int,
        size: tuple[int, int],
        sensitivity: float = 4.0,
        threshold: float = 0.0,
        decay: float = 0.8,
        opening: float = 0.5,
    ) -> None:
        super().__init__()
        check = checker(CLASSES["MotionMask"], self)
        self.sensitivity = float(check("sensitivity", sensitivity))
        self.decay = float(check("decay", decay))
        self.threshold = float(check("threshold", threshold))
        self.weigh = nn.Conv2d(channels - 1, 1, 1)
        _begin_at(self.weigh, check("opening", opening))

    def forward(self, features: Tensor) -> Tensor:
        changed, surroundings = features[:, :1], features[:, 1:]
        surely = 1 - torch.exp(-self.sensitivity * changed)
        return surely * torch.sigmoid(self.weigh(surroundings))


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
