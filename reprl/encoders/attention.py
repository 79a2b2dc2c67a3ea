"""Attention inside an encoder: what the mask looks at, at which resolution, and what it covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from reprl.components import Spec, build, imported, resolve
from reprl.encoders.geometry import (
    ReceptiveFields,
    averaging,
    gaussians,
    grid,
    interpolation,
    separable,
)
from reprl.encoders.hard import build_hard
from reprl.encoders.initialisation import RELU_GAIN, KeepsOwnWeights, orthogonal
from reprl.encoders.inputs import change, differences, require_stack
from reprl.encoders.masks import Mask
from reprl.errors import UserError, unknown
from reprl.settings import MASK_OPTIMIZER, PLACEMENT
from reprl.validation import checker

# keys that place a mask; the others are its own
PLACED = (*PLACEMENT, "per_frame", "hard", "optimizer")
OPTIMIZER = {"learning_rate": "lr", "betas": "betas"}  # our word -> torch's
BRANCH_WIDTHS = (8, 16)
FLOOR = 0.2  # a mask that may go black takes the image, and all gradient, with it


class SideBranch(nn.Sequential):
    """A light network to a finer map: two convolutions, padded so that cells reach the border."""

    def __init__(self, channels: int, size: tuple[int, int], resolution: int) -> None:
        stride = size[0] // resolution if resolution > 0 else 0
        if stride < 2 or stride % 2 or any(side != stride * resolution for side in size):
            fit = [n for n in range(1, size[0]) if size[0] % (2 * n) == 0 and size[0] == size[1]]
            raise UserError(
                f"attention.resolution={resolution} does not fit images of {size[0]}x{size[1]} "
                f"pixels: choose native or one of {', '.join(map(str, fit)) or 'none'}."
            )
        first, second = BRANCH_WIDTHS
        super().__init__(
            nn.Conv2d(channels, first, 2 * stride, stride, padding=stride // 2),
            nn.ReLU(),
            # the dilation gives a cell its surroundings (24 px at stride 4) at no cost
            nn.Conv2d(first, second, 3, padding=2, dilation=2),
            nn.ReLU(),
        )
        orthogonal(self, RELU_GAIN)


class ChangeBranch(nn.Module):
    """A side branch that sees differences only: how much each cell changed, then its features.

    (B, stack, H, W) -> (B, 1 + C, h, w). A pixel's change counts for the cells around it as a
    Gaussian half a stride wide, with 1 at a cell's centre.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, frames: int, size: tuple[int, int], resolution: int, each: int = 1) -> None:
        super().__init__()
        require_stack(frames // each, "attention on motion")
        self.each = each  # channels of a frame; `frames` counts all of them
        self.side = SideBranch(frames - each, size, resolution)
        cells = grid(self.side, size, "attention branch")
        for name, axis in (("rows", cells.rows), ("columns", cells.columns)):
            spread = gaussians(axis, axis.pixels)  # (pixels, cells)
            self.register_buffer(name, (spread / spread.amax(dim=0)).T, persistent=False)

    def forward(self, images: Tensor, *, threshold: float, decay: float) -> Tensor:
        changed = change(images, threshold=threshold, decay=decay, each=self.each)
        features = self.side(differences(images, threshold=threshold, each=self.each))
        return torch.cat([separable(self.rows, self.columns, changed), features], dim=1)


class Attention(KeepsOwnWeights):
    """A mask with its place in the encoder; K masks, one unless each frame has its own.

    `frames` are the channels of the stack, of which each frame has `each`; `channels` those that
    the trunk is fed, which may be differences.
    """

    image_rows: Tensor
    image_columns: Tensor
    map_rows: Tensor
    map_columns: Tensor

    def __init__(
        self,
        spec: Mapping[str, Any],
        *,
        frames: int,
        channels: int,
        trunk: ReceptiveFields,
        trunk_channels: int,
        where: Literal["features", "image"] = "features",
        resolution: int | Literal["native"] = "native",
        per_frame: bool = False,
        floor: float | None = None,
        hard: str | Mapping[str, Any] | None = None,
        optimizer: Mapping[str, Any] | None = None,
        each: int = 1,
    ) -> None:
        super().__init__()
        if per_frame and each > 1:
            raise UserError(
                f"attention.per_frame=true is for gray frames, and these have {each} channels: set "
                "attention.per_frame=false."
            )
        check = checker(PLACEMENT, "attention")
        where, floor = check("where", where), check("floor", floor)
        resolution = check("resolution", resolution)
        self.where, self.per_frame = where, per_frame
        self.optimizer = _own_optimizer(optimizer)
        self.branch: SideBranch | ChangeBranch | None = None
        self.grid = trunk
        of_change = _of_change(spec)
        if of_change and (resolution == "native" or per_frame):
            raise UserError(
                "attention on motion needs a side branch for the whole stack: set "
                "attention.resolution to a number such as 21 and attention.per_frame=false."
            )
        if isinstance(resolution, int):
            size = (trunk.rows.pixels, trunk.columns.pixels)
            if of_change:
                self.branch = ChangeBranch(frames, size, resolution, each)
            else:
                self.branch = SideBranch(1 if per_frame else channels, size, resolution)
            self.grid = grid(self.branch, size, "attention branch")
        elif per_frame:
            raise UserError(
                "attention.per_frame=true needs a branch that sees single frames: "
                "set attention.resolution to a number such as 21, not native."
            )
        width = trunk_channels if self.branch is None else BRANCH_WIDTHS[-1] + of_change
        self.mask: Mask = build("attention", spec, channels=width, size=self.grid.shape)
        self.hard = build_hard(hard)
        if self.hard is not None and not self.mask.bounded:
            raise UserError(f"attention.hard={hard} needs a mask that is bounded by 1.")
        if floor and not self.mask.bounded:
            raise UserError(f"attention.floor={floor} must be 0: this mask is not bounded by 1.")
        self.floor = FLOOR if floor is None and self.mask.bounded else floor or 0.0
        # fixed by the geometry, so kept out of checkpoints
        rows, columns = self.grid.rows, self.grid.columns
        tables = {"image_rows": interpolation(rows), "image_columns": interpolation(columns)}
        if self.branch is not None:
            tables["map_rows"] = averaging(rows, trunk.rows)
            tables["map_columns"] = averaging(columns, trunk.columns)
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(
        self, images: Tensor, feature_map: Tensor | None, frames: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The gate to multiply by, and the attention to report: both (B, K, h, w).

        `images` are what the trunk is fed, `frames` the stack where that is something else.
        """
        if isinstance(self.branch, ChangeBranch):
            stack = images if frames is None else frames
            settings = {"threshold": self.mask.threshold, "decay": self.mask.decay}
            mask = self.mask(self.branch(stack, **settings))
        elif self.branch is None:
            assert feature_map is not None
            mask = self.mask(feature_map)
        elif self.per_frame:
            each = images.flatten(0, 1).unsqueeze(1)  # (B*K, 1, H, W)
            mask = self.mask(self.branch(each)).reshape(*images.shape[:2], *self.grid.shape)
        else:
            mask = self.mask(self.branch(images))
        if mask.dim() != 4 or mask.shape[2:] != self.grid.shape:
            raise UserError(
                f"{type(self.mask).__name__} gives a mask of shape {tuple(mask.shape)}, "
                f"but (batch, masks, {self.grid.shape[0]}, {self.grid.shape[1]}) is needed."
            )
        if self.mask.bounded:
            return self.floor + (1 - self.floor) * self.harden(mask), mask
        return mask, mask / mask.amax(dim=(2, 3), keepdim=True).clamp(min=1e-8)

    def harden(self, mask: Tensor) -> Tensor:
        """The mask (B, K, h, w) as it is applied: open or shut, where it is a hard one."""
        return mask if self.hard is None else self.hard(mask)

    def over_image(self, gate: Tensor) -> Tensor:
        """One weight a pixel (B, K, H, W), linear between the cells' true centres."""
        return separable(self.image_rows, self.image_columns, gate)

    def over_features(self, gate: Tensor) -> Tensor:
        """One weight a cell of the trunk (B, 1, h, w), the mean over frames with their own mask."""
        if self.branch is not None:
            gate = separable(self.map_rows, self.map_columns, gate)
        return gate.mean(dim=1, keepdim=True)


def _of_change(spec: Mapping[str, Any]) -> bool:
    try:
        return bool(getattr(imported(str(spec["_target_"])), "of_change", False))
    except Exception:
        return False  # what is wrong with it is said where the mask is built


def _own_optimizer(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The mask's own optimizer settings as a parameter group takes them."""
    own: dict[str, Any] = {}
    check = checker(MASK_OPTIMIZER, "attention.optimizer")
    for key, value in (settings or {}).items():
        if key not in MASK_OPTIMIZER:
            raise unknown("key of attention.optimizer", str(key), MASK_OPTIMIZER)
        if (found := check(key, value)) is not None:
            own[OPTIMIZER[key]] = tuple(found) if key == "betas" else float(found)
    return own


def build_attention(
    spec: Spec | None,
    *,
    frames: int,
    channels: int,
    trunk: ReceptiveFields,
    trunk_channels: int,
    each: int = 1,
) -> Attention | None:
    """Attention from a spec: keys of placement are taken here, the others go to the mask."""
    if isinstance(spec, Mapping) and spec and "_target_" not in spec:
        raise UserError(f"attention: {dict(spec)} names no _target_, so there is no mask to build.")
    spec = resolve("attention", spec)
    if spec is None:
        return None
    own = {k: v for k, v in spec.items() if k not in PLACED}
    placement = {k: v for k, v in spec.items() if k not in own}
    # A mask is an extra: with it or without it, the same seed gives the same trunk and heads.
    with torch.random.fork_rng(devices=[]):
        return Attention(
            own,
            frames=frames,
            channels=channels,
            trunk=trunk,
            trunk_channels=trunk_channels,
            each=each,
            **placement,
        )
