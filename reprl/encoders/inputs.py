"""What a trunk is fed: the stack's frames, their signed differences, or both.

observation -> **input** -> trunk. Nothing here is learned: a drawing that stands still has no
difference, whatever it looks like.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from reprl.errors import UserError
from reprl.settings import ENCODER
from reprl.validation import checker

FAINTEST = 16 / 255  # a window with less contrast than this is not amplified any further


class Input(nn.Module):
    """Float images (B, stack, H, W) in [0, 1] -> what the first convolution sees (B, C, H, W)."""

    def __init__(
        self,
        *,
        frames: int,
        kind: str = "frames",
        contrast: int = 0,
        threshold: float = 0.0,
        each: int = 1,
    ) -> None:
        super().__init__()
        self.each = each  # channels of a frame; `frames` counts all of them
        check = checker(ENCODER, "encoder")
        self.kind: str = check("input", kind)
        self.contrast: int = check("contrast", contrast)
        self.threshold = float(check("threshold", threshold))
        if kind != "frames":
            require_stack(frames // each, f"encoder.input={kind}")
        if threshold and kind == "frames":
            raise UserError(
                f"encoder.threshold={threshold:g} is a dead zone for differences: set "
                "encoder.input=differences or both, or encoder.threshold=0."
            )
        self.channels = {
            "frames": frames,
            "differences": frames - each,
            "both": 2 * frames - each,
        }[kind]

    def forward(self, images: Tensor) -> Tensor:
        if self.kind == "frames":
            return self._frames(images)
        moved = differences(images, threshold=self.threshold, each=self.each)
        if self.contrast:
            # no mean is taken out: where nothing changed, there must stay nothing
            moved = _normalised(moved, self.contrast)
        if self.kind == "differences":
            return moved
        return torch.cat([self._frames(images), moved], dim=1)

    def _frames(self, images: Tensor) -> Tensor:
        if not self.contrast:
            return images
        return _normalised(images - _mean(images, self.contrast), self.contrast)


def differences(images: Tensor, *, threshold: float = 0.0, each: int = 1) -> Tensor:
    """Signed x[t] - x[t-1] of a stack: (B, stack, H, W) -> (B, stack - 1, H, W).

    Frames of several channels, `each`, are (B, stack x each, H, W) and stay side by side.

    `threshold` is a dead zone in gray levels: a smaller change is none, a larger one is kept whole.
    """
    moved = images[:, each:] - images[:, :-each]
    return moved * (moved.abs() > threshold / 255) if threshold else moved


def change(images: Tensor, *, threshold: float = 0.0, decay: float = 1.0, each: int = 1) -> Tensor:
    """How much each pixel changed within the stack: (B, stack, H, W) -> (B, 1, H, W) in [0, 1].

    The largest |difference|, each counted `decay` times as much as the one after it.
    """
    moved = differences(images, threshold=threshold, each=each).abs()
    if decay != 1:
        ages = torch.arange(moved.shape[1] - 1, -1, -1, device=moved.device, dtype=moved.dtype)
        ages = ages if each == 1 else ages.div(each, rounding_mode="floor")
        moved = moved * (decay**ages)[:, None, None]
    return moved.amax(dim=1, keepdim=True)


def require_stack(frames: int, what: str) -> None:
    """Refuse a stack in which nothing can have changed."""
    if frames < 2:
        raise UserError(
            f"{what} needs at least two frames to see change: set env.stack to 2 or more."
        )


def _normalised(signal: Tensor, window: int) -> Tensor:
    """Divide by the norm of the signal in a window around each pixel: a lone pixel becomes 1."""
    half = window // 2
    # two passes with one-dimensional windows; zeros beyond the border add nothing to a sum
    energy = functional.avg_pool2d(signal.square(), (window, 1), 1, (half, 0))
    energy = functional.avg_pool2d(energy, (1, window), 1, (0, half)) * window**2
    # clamped below the root, whose slope at 0 is infinite
    return signal / energy.clamp(min=FAINTEST**2).sqrt()


def _mean(images: Tensor, window: int) -> Tensor:
    """The mean over the window around each pixel, of those inside the picture."""
    half = window // 2
    rows = functional.avg_pool2d(images, (window, 1), 1, (half, 0), count_include_pad=False)
    return functional.avg_pool2d(rows, (1, window), 1, (0, half), count_include_pad=False)
