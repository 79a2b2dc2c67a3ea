"""Colour jitter: brightness, contrast, saturation and hue of RGB frames, alike in a stack."""

from __future__ import annotations

import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, to_uint8, uniform
from reprl.augmentation.convolution import require_channels
from reprl.settings import CLASSES
from reprl.validation import checker

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in a gray level


class ColorJitter(PictureChange):
    """Draw a factor around 1 for brightness, contrast and saturation, and a turn of the hue.

    For observations whose channels are frames of red, green and blue; contrast is about the mean
    gray level of the whole stack, so that what stands still keeps its colour.
    """

    moves = False

    def __init__(
        self,
        *,
        brightness: float = 0.3,
        contrast: float = 0.3,
        saturation: float = 0.3,
        hue: float = 0.1,
        probability: float = 1.0,
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["ColorJitter"], self)
        self.brightness = check("brightness", brightness)
        self.contrast = check("contrast", contrast)
        self.saturation = check("saturation", saturation)
        self.hue = check("hue", hue)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        require_channels(self, observations, 3)
        draws = uniform(generator, 4, len(observations), low=-1).to(observations.device)
        brighter = 1 + self.brightness * draws[0]
        steeper = 1 + self.contrast * draws[1]
        stronger = 1 + self.saturation * draws[2]
        return jittered(observations, brighter, steeper, stronger, self.hue * draws[3])


def jittered(
    observations: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor
) -> Tensor:
    """(B, 3 * frames, H, W) uint8 with each change in turn; the factors are (B,), hue in turns."""
    from kornia.color import hsv_to_rgb, rgb_to_hsv  # slow to import

    batch, channels, height, width = observations.shape
    frames = observations.float().view(batch, channels // 3, 3, height, width) / 255
    each = [f.view(-1, 1, 1, 1, 1) for f in (brightness, contrast, saturation, hue)]
    frames = (frames * each[0]).clamp(0, 1)
    mean = _gray(frames).mean(dim=(1, 2, 3, 4), keepdim=True)
    frames = (mean + (frames - mean) * each[1]).clamp(0, 1)
    gray = _gray(frames)
    frames = (gray + (frames - gray) * each[2]).clamp(0, 1)
    if bool((hue != 0).any()):
        angle = rgb_to_hsv(frames)
        turned = (angle[:, :, :1] + each[3] * (2 * torch.pi)) % (2 * torch.pi)
        frames = hsv_to_rgb(torch.cat([turned, angle[:, :, 1:]], dim=2))
    return to_uint8(frames.reshape(batch, channels, height, width) * 255)


def _gray(frames: Tensor) -> Tensor:
    weights = frames.new_tensor(LUMA).view(3, 1, 1)
    return (frames * weights).sum(dim=2, keepdim=True)  # (B, frames, 1, H, W)
