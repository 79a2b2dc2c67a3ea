"""Cutout: boxes that hide part of the picture, black or in a gray of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, fits, integers, uniform
from reprl.settings import CLASSES
from reprl.validation import checker


class Cutout(PictureChange):
    """Draw a random number of boxes wholly inside the picture, later ones over earlier ones."""

    moves = False

    def __init__(
        self,
        *,
        boxes: Sequence[int] = (1, 1),
        sides: Sequence[int] = (10, 30),
        fill: str = "black",
        probability: float = 1.0,
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Cutout"], self)
        self.boxes = check("boxes", boxes)
        self.sides = check("sides", sides)
        self.fill = check("fill", fill)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = observations.shape
        fits(self, "sides", self.sides[1], observations, min(height, width))
        most = self.boxes[1]
        count = integers(generator, (batch,), *self.boxes)
        side = integers(generator, (batch, most, 2), *self.sides)  # height, width
        room = torch.tensor([height, width], device=side.device) - side
        place = uniform(generator, batch, most, 2) * (room + 1)
        level = integers(generator, (batch, most), 0, 255 if self.fill == "gray" else 0)
        first = torch.minimum(place.long(), room)  # uniform draws may round up to 1
        draws = zip(
            count.tolist(), first.tolist(), (first + side).tolist(), level.tolist(), strict=True
        )
        changed = observations.clone()
        # a few small boxes: filling slices is far cheaper than masking whole pictures
        for picture, (boxes, starts, ends, grays) in zip(changed, draws, strict=True):
            for box in range(boxes):
                (top, left), (bottom, right) = starts[box], ends[box]
                picture[:, top:bottom, left:right] = grays[box]
        return changed
