"""Lines: thin strokes across the picture, each in a gray of its own, that stand still."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, fits, integers, uniform
from reprl.settings import CLASSES
from reprl.validation import checker

# the directions a stroke may have, as steps of a right angle's half
DIRECTIONS = {"straight": (0, 2), "diagonal": (1, 3), "both": (0, 1, 2, 3), "any": ()}


class Lines(PictureChange):
    """Draw a random number of strokes around random points, cut off at the picture's border."""

    moves = False

    def __init__(
        self,
        *,
        lines: Sequence[int] = (0, 6),
        lengths: Sequence[int] = (10, 84),
        widths: Sequence[int] = (1, 2),
        direction: str = "both",
        probability: float = 1.0,
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Lines"], self)
        self.lines = check("lines", lines)
        self.lengths = check("lengths", lengths)
        self.widths = check("widths", widths)
        self.direction = check("direction", direction)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = observations.shape
        fits(self, "widths", self.widths[1], observations, min(height, width))
        most = self.lines[1]
        count = integers(generator, (batch,), *self.lines)
        length = integers(generator, (batch, most), *self.lengths)
        thick = integers(generator, (batch, most), *self.widths)
        level = integers(generator, (batch, most), 0, 255)
        middle = uniform(generator, batch, most, 2) * torch.tensor(
            [height - 1, width - 1], device=generator.device
        )
        angle = self._angles(generator, batch, most)
        drawn = torch.arange(most, device=count.device) < count[:, None]  # (batch, most)
        place = _strokes(length, thick, middle, angle, (height, width))  # (batch, most, points)
        place = torch.where(drawn[..., None], place, height * width)
        canvas = torch.full((batch, height * width + 1), -1, device=place.device)
        for line in range(most):  # later ones over earlier ones
            gray = level[:, line, None].expand_as(place[:, line])
            canvas.scatter_(1, place[:, line], gray)
        canvas = canvas[:, :-1].view(batch, 1, height, width).to(observations.device)
        return torch.where(canvas >= 0, canvas.to(torch.uint8), observations)

    def _angles(self, generator: torch.Generator, batch: int, most: int) -> Tensor:
        """Angles (batch, most) to the horizontal, from 0 to below a half turn."""
        steps = DIRECTIONS[self.direction]
        if not steps:
            return uniform(generator, batch, most, high=math.pi)
        chosen = integers(generator, (batch, most), 0, len(steps) - 1)
        return torch.tensor(steps, device=chosen.device)[chosen] * (math.pi / 4)


def _strokes(
    length: Tensor, width: Tensor, middle: Tensor, angle: Tensor, size: tuple[int, int]
) -> Tensor:
    """Each stroke's pixels (batch, most, points) as row * columns + column, the end for none."""
    points = torch.arange(max(int(length.max()), 1) if length.numel() else 1, device=length.device)
    beside = torch.arange(int(width.max()) if width.numel() else 1, device=length.device)
    along = points - (length[..., None] - 1) / 2  # (batch, most, points)
    rise, run = angle.sin()[..., None], angle.cos()[..., None]
    scale = torch.maximum(rise.abs(), run.abs())  # a pixel a step along the longer axis: no gaps
    rows = (middle[..., :1] + along * rise / scale).round().long()[..., None]
    columns = (middle[..., 1:] + along * run / scale).round().long()[..., None]
    steep = (rise.abs() > run.abs())[..., None]  # thickened across the longer axis
    rows = rows + torch.where(steep, 0, beside)
    columns = columns + torch.where(steep, beside, 0)
    within = (points < length[..., None])[..., None] & (beside < width[..., None, None])
    inside = (rows >= 0) & (rows < size[0]) & (columns >= 0) & (columns < size[1])
    place = torch.where(within & inside, rows * size[1] + columns, size[0] * size[1])
    return place.flatten(2)
