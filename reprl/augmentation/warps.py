"""Augmentations that turn or tilt the picture: rotation and perspective."""

from __future__ import annotations

import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, to_uint8, uniform
from reprl.settings import CLASSES
from reprl.validation import checker

PADDING = {"edge": "border", "black": "zeros"}  # what lies beyond the picture, in torch's words


class Rotate(PictureChange):
    """Turn the picture about its middle by up to `degrees` either way."""

    def __init__(
        self, *, degrees: float = 10.0, fill: str = "edge", probability: float = 1.0
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Rotate"], self)
        self.degrees = check("degrees", degrees)
        self.fill = check("fill", fill)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        from kornia.geometry.transform import rotate  # slow to import

        angle = uniform(generator, len(observations), low=-self.degrees, high=self.degrees)
        pictures = observations.float()
        turned = rotate(pictures, angle.to(pictures.device), padding_mode=PADDING[self.fill])
        return to_uint8(turned)


class Perspective(PictureChange):
    """Look at the picture from aside: each corner moves inwards by up to half of `distortion`."""

    def __init__(
        self, *, distortion: float = 0.2, fill: str = "edge", probability: float = 1.0
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Perspective"], self)
        self.distortion = check("distortion", distortion)
        self.fill = check("fill", fill)

    def corners(self, shape: torch.Size, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Corners (B, 4, 2) as x, y before and after, from the upper left one clockwise."""
        batch, (height, width) = shape[0], shape[-2:]
        signs = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])  # inwards
        sides = torch.tensor([width - 1.0, height - 1.0])
        before = (1 - signs) / 2 * sides
        inwards = uniform(generator, batch, 4, 2).cpu() * sides * (self.distortion / 2)
        return before.expand(batch, 4, 2), before + signs * inwards

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        from kornia.geometry.transform import get_perspective_transform, warp_perspective

        before, after = self.corners(observations.shape, generator)
        pictures = observations.float()
        matrices = get_perspective_transform(before, after).to(pictures.device)  # (B, 3, 3)
        size = (pictures.shape[-2], pictures.shape[-1])
        tilted = warp_perspective(pictures, matrices, size, padding_mode=PADDING[self.fill])
        return to_uint8(tilted)
