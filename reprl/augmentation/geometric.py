"""Augmentations that move the picture: shift, crop-resize and flip."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reprl.augmentation.base import (
    Augmentation,
    PictureChange,
    View,
    fits,
    integers,
    to_uint8,
    uniform,
)
from reprl.settings import CLASSES
from reprl.validation import checker


class Shift(PictureChange):
    """Pad by `pixels` and crop back at random: edges repeated (DrQ), or black (translate)."""

    def __init__(self, *, pixels: int = 4, fill: str = "edge", probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Shift"], self)
        self.pixels = check("pixels", pixels)
        self.fill = check("fill", fill)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        height, width = observations.shape[-2:]
        fits(self, "pixels", self.pixels, observations, min(height, width) - 1)
        padded = self._pad(observations)
        # every possible crop as a view; picking one a sample copies whole rows
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)  # (B, stack, 2p+1, 2p+1, H, W)
        offsets = integers(generator, (2, len(observations)), 0, 2 * self.pixels)
        down, right = offsets.to(observations.device)
        return crops[torch.arange(len(observations), device=down.device), :, down, right]

    def _pad(self, observations: Tensor) -> Tensor:
        batch, stack, height, width = observations.shape
        p = self.pixels
        # F.pad has no edge padding for uint8
        padded = observations.new_zeros(batch, stack, height + 2 * p, width + 2 * p)
        padded[:, :, p:-p, p:-p] = observations
        if self.fill == "edge":
            padded[:, :, p:-p, :p] = observations[..., :1]
            padded[:, :, p:-p, -p:] = observations[..., -1:]
            padded[:, :, :p] = padded[:, :, p : p + 1]
            padded[:, :, -p:] = padded[:, :, -p - 1 : -p]
        return padded


class CropResize(PictureChange):
    """Cut out a box of a random share of each side and stretch it back to the full size."""

    def __init__(self, *, scale: Sequence[float] = (0.8, 1.0), probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        self.scale = checker(CLASSES["CropResize"], self)("scale", scale)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        from kornia.geometry.transform import crop_and_resize  # slow to import

        batch, _, height, width = observations.shape
        sides = torch.tensor([width - 1.0, height - 1.0])  # x, y between the outer pixel centres
        low, high = self.scale
        size = sides * uniform(generator, batch, 1, low=low, high=high).cpu()
        start = (sides - size) * uniform(generator, batch, 2).cpu()
        corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])  # clockwise
        boxes = start[:, None] + corners * size[:, None]  # (B, 4, 2)
        pictures = observations.float()
        return to_uint8(crop_and_resize(pictures, boxes.to(pictures.device), (height, width)))


class Flip(Augmentation):
    """Mirror left and right; the view says where, because LEFT and RIGHT must follow."""

    mirrors = True

    def __init__(self, *, probability: float = 0.5) -> None:
        super().__init__()
        self.probability = checker(CLASSES["Flip"], self)("probability", probability)

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        draws = uniform(generator, len(observations))
        mirrored = (draws < self.probability).to(observations.device)
        where = mirrored[:, None, None, None]
        return View(torch.where(where, observations.flip(-1), observations), mirrored)
