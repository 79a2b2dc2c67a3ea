"""Random convolution: another texture and other gray levels for the same shapes (RandConv)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from reprl.augmentation.base import PictureChange, fits, to_uint8, uniform
from reprl.errors import UserError
from reprl.settings import CLASSES
from reprl.validation import checker


class RandomConvolution(PictureChange):
    """Filter each stack with normal weights of its own and mix the result with the pictures.

    The filtered stack is stretched to the range of gray levels it had, so that nothing is cut off;
    a filter of negative weights inverts. `channels` of 3 mixes the colours of a frame as well.
    """

    moves = False

    def __init__(
        self,
        *,
        size: int = 3,
        mix: Sequence[float] = (0.0, 1.0),
        channels: int = 1,
        probability: float = 1.0,
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["RandomConvolution"], self)
        self.size = check("size", size)
        self.mix = check("mix", mix)
        self.channels = check("channels", channels)
        if self.size % 2 == 0:
            raise UserError(
                f"augmentation RandomConvolution: size={size} must be odd, so that a filter has a "
                "middle."
            )

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        fits(self, "size", self.size, observations, min(observations.shape[-2:]))
        require_channels(self, observations, self.channels)
        shape = (len(observations), self.channels, self.channels, self.size, self.size)
        weights = torch.randn(shape, generator=generator, device=generator.device)
        low, high = self.mix
        share = uniform(generator, len(observations), low=low, high=high)
        pictures = observations.float()
        filtered = filtered_alike(pictures, weights.to(pictures.device))
        share = share.to(pictures.device)[:, None, None, None]
        return to_uint8(pictures + share * (stretched(filtered, pictures) - pictures))


def filtered_alike(pictures: Tensor, weights: Tensor) -> Tensor:
    """All frames of (B, stack, H, W) under their sample's weights (B, c, c, k, k), edges kept."""
    batch, stack, height, width = pictures.shape
    channels, size = weights.shape[1], weights.shape[-1]
    frames = pictures.view(batch, stack // channels, channels, height, width).transpose(0, 1)
    frames = F.pad(frames.flatten(1, 2), [size // 2] * 4, mode="replicate")  # (frames, B * c, ...)
    filtered = F.conv2d(frames, weights.flatten(0, 1), groups=batch)
    filtered = filtered.view(stack // channels, batch, channels, height, width).transpose(0, 1)
    return filtered.reshape(batch, stack, height, width)


def stretched(filtered: Tensor, pictures: Tensor) -> Tensor:
    """Each filtered stack, from its own lowest and highest value to those of the pictures."""
    low, high = (f(filtered, dim=(1, 2, 3), keepdim=True) for f in (torch.amin, torch.amax))
    first, last = (f(pictures, dim=(1, 2, 3), keepdim=True) for f in (torch.amin, torch.amax))
    return first + (filtered - low) * ((last - first) / (high - low).clamp_min(1e-6))


def require_channels(part: object, observations: Tensor, channels: int) -> None:
    """Refuse observations that do not consist of frames with so many channels."""
    if observations.shape[1] % channels:
        kind = "RGB" if channels == 3 else f"{channels}-channel"
        raise UserError(
            f"augmentation {type(part).__name__}: {kind} frames (channels={channels}) do not fit "
            f"observations of {observations.shape[1]} channels."
        )
