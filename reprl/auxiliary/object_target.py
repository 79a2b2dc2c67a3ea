"""Object target: the mask is taught where the game's objects really are.

A ceiling, not a method: it reads the truth. What a mask taught so reaches is what its shape and
its place in the network allow; every learned mask is to be compared with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.motion_target import mask_error, nearest_cells
from reprl.auxiliary.sparsity import require_attention
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker

NAME = "object_target"


class ObjectTarget(AuxiliaryLoss):
    """Binary cross-entropy of the mask to the cells that hold an object, mean over cells.

    A cell holds an object if one of the pixels nearest to it is touched by its box in the newest
    frame. Cells weigh 1 + (positive - 1) * target. Gradient reaches what makes the mask.
    """

    needs = frozenset({"boxes"})
    owners: Tensor

    def __init__(
        self,
        *,
        coef: Coefficient = 0.5,
        positive: float = 10.0,
        augmentation: Spec | None = "boxes_lines",
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare(NAME, coef=coef, begin=begin)
        self.positive = float(checker(CLASSES["ObjectTarget"], self)("positive", positive))
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        _, height, width = context.observation_space.shape
        cells = require_attention(NAME, context)[1:]
        self.views.setup(context)
        if self.views.augmentation is not None and self.views.augmentation.moves:
            raise UserError(
                f"auxiliary loss '{NAME}': its augmentation moves what is in the picture, and the "
                "truth would not follow: choose one that draws, such as boxes_lines, or none."
            )
        self.cells, self.size = (cells[0], cells[1]), (height, width)
        owners = nearest_cells(context.encoder, self.cells, self.size)
        self.register_buffer("owners", owners, persistent=False)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        view = self.views(batch.originals, batch.generator).observations
        attention = encoder.attend(batch.images(view))
        assert attention is not None  # (B, K, h, w)
        target = self.target(batch.boxes).expand_as(attention)
        return {NAME: mask_error(attention, target, self.positive)}

    @torch.no_grad()
    def target(self, boxes: Tensor) -> Tensor:
        """Which cells (B, 1, h, w), 0 or 1, hold one of the boxes (B, K, 4)."""
        height, width = self.size
        rows = torch.arange(height, device=boxes.device)
        columns = torch.arange(width, device=boxes.device)
        left, top, right, bottom = boxes.unbind(dim=2)  # (B, K); NaN compares as False
        tall = (rows + 1 > top[..., None]) & (rows < bottom[..., None])  # (B, K, H)
        wide = (columns + 1 > left[..., None]) & (columns < right[..., None])  # (B, K, W)
        pixels = (tall[..., None] & wide[..., None, :]).any(dim=1).flatten(1)  # (B, H*W)
        found = torch.zeros(len(boxes), self.cells[0] * self.cells[1], device=boxes.device)
        found.scatter_reduce_(1, self.owners.expand_as(pixels), pixels.float(), "amax")
        return found.view(-1, 1, *self.cells)
