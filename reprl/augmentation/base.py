"""The augmentation's interface: observations in, observations out, one draw a sample.

Augmentations map uint8 stacks to uint8 stacks, so an augmented batch is still a batch of
observations: RAD, DrAC and the contrastive views all use them the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class View:
    """An augmented batch; `mirrored` tells where LEFT and RIGHT changed places."""

    observations: Tensor  # (B, stack, H, W) uint8
    mirrored: Tensor | None = None  # (B,) bool


class Augmentation(nn.Module):
    """A random change of the picture that keeps what the agent must do."""

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        """Augment (B, stack, H, W) uint8: own draw per sample, the same for its frames."""
        raise AssertionError(f"{type(self).__name__} must define forward()")
