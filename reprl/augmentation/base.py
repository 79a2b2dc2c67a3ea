"""The augmentation's interface: observations in, observations out, one draw a sample.

Augmentations map uint8 stacks to uint8 stacks, so an augmented batch is still a batch of
observations: RAD, DrAC and the contrastive views all use them the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reprl.errors import UserError
from reprl.settings import PROBABILITY
from reprl.validation import checker


@dataclass
class View:
    """An augmented batch; `mirrored` tells where LEFT and RIGHT changed places."""

    observations: Tensor  # (B, stack, H, W) uint8
    mirrored: Tensor | None = None  # (B,) bool


class Augmentation(nn.Module):
    """A random change of the picture that keeps what the agent must do.

    It has no state: what it draws comes from the generator it is given, and nothing it could learn
    or count would find its way into a checkpoint.
    """

    mirrors: bool = False  # may exchange left and right, so that actions must follow
    moves: bool = True  # may move what is in the picture, so that places in it must follow

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        """Augment (B, stack, H, W) uint8: own draw per sample, the same for its frames."""
        raise AssertionError(f"{type(self).__name__} must define forward()")


class PictureChange(Augmentation):
    """An augmentation of one kind: subclasses change pictures, this decides which samples."""

    def __init__(self, *, probability: float = 1.0) -> None:
        super().__init__()
        self.probability = checker(PROBABILITY, self)("probability", probability)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """Change every sample of (N, stack, H, W) uint8."""
        raise AssertionError(f"{type(self).__name__} must define change()")

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        if self.probability == 1:
            return View(self.change(observations, generator))
        chosen = uniform(generator, len(observations)) < self.probability
        index = chosen.nonzero()[:, 0].to(observations.device)
        changed = observations.clone()
        if len(index):
            changed[index] = self.change(observations[index], generator)
        return View(changed)


def stateless(augmentation: Augmentation) -> Augmentation:
    """The augmentation, or a refusal by name of one whose state a checkpoint would lose."""
    if state := augmentation.state_dict():
        kind = type(augmentation).__name__
        raise UserError(
            f"augmentation {kind} has a state ('{next(iter(state))}') that no checkpoint holds: "
            "give its constants as arguments, or register them with persistent=False."
        )
    return augmentation


def uniform(generator: torch.Generator, *shape: int, low: float = 0, high: float = 1) -> Tensor:
    """Uniform draws on the generator's device, which need not be the pictures'."""
    return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)


def integers(generator: torch.Generator, shape: tuple[int, ...], low: int, high: int) -> Tensor:
    """Whole numbers from low to high, both included."""
    return torch.randint(low, high + 1, shape, generator=generator, device=generator.device)


def to_uint8(pictures: Tensor) -> Tensor:
    """Round float gray levels, which are overwritten, to the nearest of 0 ... 255."""
    return pictures.round_().clamp_(0, 255).to(torch.uint8)


def fits(part: nn.Module, key: str, value: int, observations: Tensor, limit: int) -> None:
    """Refuse a size in pixels that the picture is too small for."""
    if value > limit:
        height, width = observations.shape[-2:]
        raise UserError(
            f"augmentation {type(part).__name__}: {key}={value} is too large for pictures of "
            f"{height}x{width} pixels, at most {limit} fits."
        )
