"""Motion target: the mask of any attention is taught where the picture moved.

What moves is known without labels. Taught on views in which still boxes and lines are drawn, a
mask learns to tell by appearance what motion tells for free; remembered for a few steps, a paddle
that rests stays marked.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.sparsity import require_attention
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.encoders.inputs import require_stack
from reprl.envs.observation import frame_channels
from reprl.errors import UserError
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker

NAME = "motion_target"


class MotionTarget(AuxiliaryLoss):
    """Binary cross-entropy of the mask to the cells in which something moved, mean over cells.

    A pixel moved where a difference of the stack exceeds `threshold` gray levels; a cell moved if
    one of the pixels nearest to it did. Cells weigh 1 + (positive - 1) * target. With `memory`,
    what moved up to so many steps ago counts decay ** steps. A mask for each frame is taught what
    moved from or to that frame. With `newest` only those pixels moved in which something is now:
    the newest frame differs there from both frames before it, so that what left a place does not
    mark it; of the stacks that `memory` looks back at, too, the newest frame alone counts. Gradient
    reaches what makes the mask.
    """

    owners: Tensor

    def __init__(
        self,
        *,
        coef: Coefficient = 0.5,
        positive: float = 10.0,
        threshold: float = 8.0,
        memory: int = 6,
        decay: float = 0.9,
        newest: bool = False,
        augmentation: Spec | None = "boxes_lines",
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare(NAME, coef=coef, begin=begin)
        check = checker(CLASSES["MotionTarget"], self)
        self.positive = float(check("positive", positive))
        self.threshold = float(check("threshold", threshold))
        self.reach = int(check("memory", memory))
        self.decay = float(check("decay", decay))
        self.newest = bool(check("newest", newest))
        self.views = Views(augmentation)

    def setup(self, context: Context) -> None:
        frames, height, width = context.observation_space.shape
        self.each = frame_channels(context.observation_space)
        frames //= self.each
        require_stack(frames, f"auxiliary loss '{NAME}'")
        count, *cells = require_attention(NAME, context)
        if self.newest and (frames < 3 or count > 1):
            what = f"env.stack={frames}" if frames < 3 else "a mask for each frame"
            raise UserError(
                f"auxiliary loss '{NAME}': newest=true compares the newest frame with two before "
                f"it, for one mask: it does not go with {what}."
            )
        mask = getattr(getattr(context.encoder, "attention", None), "mask", None)
        if self.reach and getattr(mask, "of_change", False):
            raise UserError(
                f"auxiliary loss '{NAME}': memory={self.reach} teaches cells in which nothing "
                "moves now, and a mask of motion alone never lights those: set memory=0."
            )
        self.views.setup(context)
        # Stacks that follow each other without a gap: every step is seen once, but for `newest`,
        # which sees one frame of each.
        self.offsets = [min(k, self.reach) for k in _multiples(frames - 1, self.reach)]
        owners = nearest_cells(context.encoder, (cells[0], cells[1]), (height, width))
        self.register_buffer("owners", owners, persistent=False)
        self.cells = (cells[0], cells[1])

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        pictures, weights = [batch.originals], [torch.ones(len(batch.actions))]
        for offset in self.offsets:
            earlier, valid = batch.at(-offset)
            pictures.append(earlier)
            weights.append(valid.float().cpu() * self.decay**offset)
        stack = batch.originals.shape[1]
        # All steps in one view: what is drawn or shifted is so in every frame alike.
        frames = torch.cat(pictures, dim=1)  # (B, steps * stack, H, W)
        grouped = frames.unflatten(1, (-1, self.each))
        # (B, steps * frames): at its start a game has black frames, not yet filled
        there = grouped.amax(dim=(2, 3, 4)) > 0
        view = self.views(frames, batch.generator).observations
        attention = encoder.attend(batch.images(view[:, :stack]))
        assert attention is not None  # (B, K, h, w)
        with torch.no_grad():
            count = stack // self.each  # frames of a stack
            target = self._moved(view[:, :stack], there[:, :count], attention.shape[1])
            for step, weight in enumerate(weights[1:], start=1):
                part = slice(step * stack, (step + 1) * stack)
                seen = there[:, step * count : (step + 1) * count]
                before = self._moved(view[:, part], seen, 1)
                target = torch.maximum(target, before * weight.to(before)[:, None, None, None])
        return {NAME: mask_error(attention, target, self.positive)}

    def _moved(self, stacks: Tensor, there: Tensor, masks: int) -> Tensor:
        """Which cells moved (B, masks, h, w), 0 or 1, in stacks (B, stack, H, W) uint8."""
        frames = stacks.float().unflatten(1, (-1, self.each))  # (B, frames, channels, H, W)
        if self.newest:
            moved = ((frames[:, -1:] - frames[:, -3:-1]).abs() > self.threshold).any(dim=2)
            moved &= there[:, -3:].all(dim=1)[:, None, None, None]
            pixels = moved.all(dim=1, keepdim=True).flatten(2)  # (B, 1, H*W)
        else:
            moved = (frames.diff(dim=1).abs() > self.threshold).any(dim=2)
            moved &= (there[:, 1:] & there[:, :-1])[..., None, None]  # (B, frames - 1, H, W)
            pixels = _for_each_mask(moved, masks).flatten(2)  # (B, masks, H*W)
        found = torch.zeros(*pixels.shape[:2], self.cells[0] * self.cells[1], device=pixels.device)
        index = self.owners.expand_as(pixels)
        found.scatter_reduce_(2, index, pixels.float(), "amax")
        return found.unflatten(2, self.cells)


def mask_error(attention: Tensor, target: Tensor, positive: float) -> Tensor:
    """Binary cross-entropy of a mask to its target, both (B, K, h, w); cells to mark weigh more."""
    # A softplus mask divided by its maximum is 1 in one cell, whatever its weights: the infinite
    # slope there would turn the maximum's rounding into gradient.
    learned = torch.where(attention < 1, attention, attention.detach())
    return functional.binary_cross_entropy(learned, target, 1 + (positive - 1) * target)


def nearest_cells(encoder: Encoder, cells: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """For each pixel (H*W,) the cell of the mask, row by row, that is centred nearest to it."""
    count = cells[0] * cells[1]
    if cells == size:
        return torch.arange(count)
    device = next(encoder.parameters()).device
    with torch.no_grad():
        single = torch.eye(count, device=device).view(count, 1, *cells)
        spread = encoder.project(single, size).flatten(1)  # (cells, H*W)
        # Gaussians of one width: with equal peaks, the highest at a pixel is the nearest.
        return (spread / spread.amax(dim=1, keepdim=True)).argmax(dim=0)


def _for_each_mask(moved: Tensor, masks: int) -> Tensor:
    """What moved (B, masks, H, W): for one mask all of it, for one a frame what touched it."""
    steps = moved.shape[1]
    frames = torch.stack(
        [moved[:, max(t - 1, 0) : t + 1].any(dim=1) for t in range(steps + 1)], dim=1
    )
    if masks == steps + 1:
        return frames
    if masks > 1 and masks in (steps, 2 * steps + 1):  # of differences, or of both
        return moved if masks == steps else torch.cat([frames, moved], dim=1)
    return moved.any(dim=1, keepdim=True).expand(-1, masks, -1, -1)


def _multiples(step: int, last: int) -> range:
    """step, 2 step, ... until `last` is reached."""
    return range(step, last + step, step) if last else range(0)
