"""Small networks of the losses: heads that read a representation, and EMA copies of the encoder.

They never feed the policy.
"""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from reprl.errors import UserError


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """One hidden layer: (B, inputs) -> (B, outputs)."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class PixelHead(nn.Module):
    """Paint pictures from a vector: (B, inputs) -> (B, frames, H / shrink, W / shrink)."""

    def __init__(self, inputs: int, picture: tuple[int, int, int], *, shrink: int) -> None:
        super().__init__()
        frames, height, width = picture
        if shrink > min(height, width):
            raise UserError(
                f"auxiliary loss: shrink={shrink} leaves nothing of pictures of {height}x{width} "
                f"pixels, at most {min(height, width)} fits."
            )
        self.shrink = shrink
        self.size = (height // shrink, width // shrink)
        # The first grid is a quarter of the picture: two doublings lead back to it.
        self.grid = (math.ceil(self.size[0] / 4), math.ceil(self.size[1] / 4))
        self.spread = nn.Linear(inputs, 16 * self.grid[0] * self.grid[1])
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.paint = nn.Conv2d(16, frames, 3, padding=1)

    def forward(self, vector: Tensor) -> Tensor:
        cells = functional.relu(self.spread(vector)).view(-1, 16, *self.grid)
        cells = functional.relu(self.middle(functional.interpolate(cells, scale_factor=2)))
        picture = self.paint(functional.interpolate(cells, scale_factor=2))
        return picture[:, :, : self.size[0], : self.size[1]]

    def error(self, vector: Tensor, images: Tensor) -> Tensor:
        """Mean squared error to the images (B, frames, H, W), area-averaged by `shrink`."""
        target = functional.avg_pool2d(images, self.shrink)
        return functional.mse_loss(self(vector), target.detach())


class ImageTrunk(nn.Sequential):
    """A light convolutional trunk for any size: (B, frames, H, W) -> (B, `width`).

    The wide first stride keeps it at a quarter of NatureCNN's multiplications.
    """

    def __init__(self, picture: tuple[int, int, int]) -> None:
        frames, height, width = picture
        super().__init__(
            nn.Conv2d(frames, 32, 5, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.width = 32 * math.ceil(height / 8) * math.ceil(width / 8)


class Momentum(nn.Module):
    """copy <- (1 - tau) copy + tau online on every `move`; it never takes a gradient."""

    def __init__(self, online: nn.Module, *, tau: float) -> None:
        super().__init__()
        self.tau = tau
        self.copy = copy.deepcopy(online).requires_grad_(False).eval()
        # A tuple keeps the online module out of this module's parameters and state.
        self._online = (online,)

    @torch.no_grad()
    def forward(self, *inputs: Any) -> Any:
        return self.copy(*inputs)

    def begin(self) -> None:
        """Be the online module's equal again, after that was given other parameters."""
        (online,) = self._online
        self.copy.load_state_dict(online.state_dict())

    @torch.no_grad()
    def move(self) -> None:
        (online,) = self._online
        for follower, leader in zip(self.copy.parameters(), online.parameters(), strict=True):
            follower.lerp_(leader, self.tau)
        for copied, original in zip(self.copy.buffers(), online.buffers(), strict=True):
            copied.copy_(original)

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode: a key must not depend on dropout."""
        return super().train(False)
