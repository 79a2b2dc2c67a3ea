"""Augmentations that change gray levels and leave everything where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, fits, to_uint8, uniform
from reprl.settings import CLASSES
from reprl.validation import checker


class Intensity(PictureChange):
    """Multiply all gray levels by 1 + strength * normal draw, cut off at two deviations (DrQ)."""

    moves = False

    def __init__(self, *, strength: float = 0.1, probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        self.strength = checker(CLASSES["Intensity"], self)("strength", strength)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        draws = torch.randn(len(observations), generator=generator, device=generator.device)
        factor = 1 + self.strength * draws.clamp(-2, 2)
        return to_uint8(
            observations.float().mul_(factor.to(observations.device)[:, None, None, None])
        )


class Noise(PictureChange):
    """Add normal noise of `deviation` gray levels to each pixel, the same in all frames."""

    moves = False

    def __init__(self, *, deviation: float = 8.0, probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        self.deviation = checker(CLASSES["Noise"], self)("deviation", deviation)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = observations.shape
        shape = (batch, 1, height, width)
        noise = torch.randn(shape, generator=generator, device=generator.device)
        return to_uint8(
            observations.float().add_(noise.to(observations.device), alpha=self.deviation)
        )


class Blur(PictureChange):
    """Gaussian blur with a random width in pixels."""

    moves = False

    def __init__(self, *, sigma: Sequence[float] = (0.1, 1.5), probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        self.sigma = checker(CLASSES["Blur"], self)("sigma", sigma)
        self.kernel = 2 * math.ceil(3 * self.sigma[1]) + 1

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        from kornia.filters import gaussian_blur2d  # slow to import

        fits(self, "kernel", self.kernel, observations, min(observations.shape[-2:]))
        low, high = self.sigma
        sigma = uniform(generator, len(observations), 1, low=low, high=high).expand(-1, 2)
        size = (self.kernel, self.kernel)
        pictures = observations.float()
        return to_uint8(gaussian_blur2d(pictures, size, sigma.to(pictures.device), "replicate"))
