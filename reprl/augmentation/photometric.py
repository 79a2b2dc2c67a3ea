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


class Speckle(PictureChange):
    """Random pixels go black and a few white, others in every frame: what bad light does.

    The shares of both are drawn for each sample. On `env.background=adaptive`, where noise and
    faint colours leave holes in what is seen, it shows such holes before an agent meets them.
    """

    moves = False

    def __init__(
        self,
        *,
        black: Sequence[float] = (0.0, 0.5),
        white: Sequence[float] = (0.0, 0.01),
        probability: float = 1.0,
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Speckle"], self)
        self.black = check("black", black)
        self.white = check("white", white)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        black, white = (
            uniform(generator, len(observations), 1, 1, 1, low=low, high=high)
            for low, high in (self.black, self.white)
        )
        draws = torch.rand(observations.shape, generator=generator, device=generator.device)
        changed = observations.masked_fill((draws < black).to(observations.device), 0)
        return changed.masked_fill_((draws > 1 - white).to(observations.device), 255)


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


class Sharpness(PictureChange):
    """Blur or sharpen by a factor: 0 smooths over 3x3 pixels, 1 changes nothing, more sharpens."""

    moves = False

    def __init__(self, *, factor: Sequence[float] = (0.0, 3.0), probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        self.factor = checker(CLASSES["Sharpness"], self)("factor", factor)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        fits(self, "kernel", 3, observations, min(observations.shape[-2:]))
        low, high = self.factor
        factor = uniform(generator, len(observations), low=low, high=high).to(observations.device)
        pictures = observations.float()
        smooth = pictures.clone()  # the border stays as it is, as Pillow has it
        windows = torch.nn.functional.avg_pool2d(pictures, 3, stride=1) * 9
        inner = pictures[..., 1:-1, 1:-1]
        smooth[..., 1:-1, 1:-1] = (windows + 4 * inner) / 13
        return to_uint8(smooth + factor[:, None, None, None] * (pictures - smooth))


class Equalize(PictureChange):
    """Spread the gray levels of a stack evenly, by a random `strength` of up to all the way.

    One histogram and one curve for all frames of a stack: what stands still stays as it is.
    """

    moves = False

    def __init__(self, *, strength: Sequence[float] = (0.2, 1.0), probability: float = 1.0) -> None:
        super().__init__(probability=probability)
        self.strength = checker(CLASSES["Equalize"], self)("strength", strength)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        batch = len(observations)
        low, high = self.strength
        strength = uniform(generator, batch, low=low, high=high).to(observations.device)
        rows = observations.flatten(1).long()  # (B, pixels)
        counts = rows.new_zeros(batch, 256).scatter_add_(1, rows, torch.ones_like(rows))
        highest = counts.gather(1, rows.amax(dim=1, keepdim=True))
        step = (rows.shape[1] - highest) // 255  # pixels for each level, as Pillow counts them
        below = counts.cumsum(1) - counts
        curve = ((below + step // 2) // step.clamp_min(1)).clamp(0, 255)
        levels = torch.arange(256, device=rows.device).expand_as(curve)
        curve = torch.where(step > 0, curve, levels).float()
        curve = levels + strength[:, None] * (curve - levels)
        return to_uint8(curve).gather(1, rows).view_as(observations)
