"""Cutout: boxes that hide part of the picture, black or gray, standing still or moving."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, fits, integers, uniform
from reprl.augmentation.convolution import require_channels
from reprl.settings import CLASSES
from reprl.validation import checker


class Cutout(PictureChange):
    """Draw a random number of boxes, later ones over earlier ones, wholly inside the newest frame.

    With a speed each box comes from a direction of its own: in a frame k before the newest it is k
    steps back on its way, which may begin outside the picture.
    """

    moves = False  # of the game's own objects nothing moves

    def __init__(
        self,
        *,
        boxes: Sequence[int] = (1, 1),
        sides: Sequence[int] = (10, 30),
        fill: str = "black",
        speed: float = 0.0,
        channels: int = 1,
        probability: float = 1.0,
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Cutout"], self)
        self.boxes = check("boxes", boxes)
        self.sides = check("sides", sides)
        self.fill = check("fill", fill)
        self.speed: float = check("speed", speed)
        self.channels: int = check("channels", channels)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        batch, depth, height, width = observations.shape
        fits(self, "sides", self.sides[1], observations, min(height, width))
        most = self.boxes[1]
        count = integers(generator, (batch,), *self.boxes)
        side = integers(generator, (batch, most, 2), *self.sides)  # height, width
        room = torch.tensor([height, width], device=side.device) - side
        place = uniform(generator, batch, most, 2) * (room + 1)
        level = integers(generator, (batch, most), 0, 255 if self.fill == "gray" else 0)
        first = torch.minimum(place.long(), room)  # uniform draws may round up to 1
        back = self._way_back(observations, generator)  # (frames, B, most, 2) pixels
        changed = observations.clone()
        for frame, offset in enumerate(back):
            # all channels of a frame; without a speed one "frame" is the whole stack
            channels = slice(frame * depth // len(back), (frame + 1) * depth // len(back))
            start = first - offset
            size = torch.tensor([height, width], device=side.device)
            end = torch.minimum((start + side).clamp(min=0), size)
            start = torch.minimum(start.clamp(min=0), size)
            draws = zip(count.tolist(), start.tolist(), end.tolist(), level.tolist(), strict=True)
            # a few small boxes: filling slices is far cheaper than masking whole pictures
            for picture, (boxes, starts, ends, grays) in zip(changed, draws, strict=True):
                for box in range(boxes):
                    (top, left), (bottom, right) = starts[box], ends[box]
                    picture[channels, top:bottom, left:right] = grays[box]
        return changed

    def _way_back(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """How far each box was from its place in each frame, oldest first: one 0 if none moves."""
        batch, most = len(observations), self.boxes[1]
        if not self.speed:
            return torch.zeros(1, batch, most, 2, dtype=torch.long, device=generator.device)
        require_channels(self, observations, self.channels)
        velocity = self.speed * uniform(generator, batch, most, 2, low=-1)
        ago = torch.arange(observations.shape[1] // self.channels - 1, -1, -1)
        return (ago.to(velocity.device).view(-1, 1, 1, 1) * velocity).round().long()
