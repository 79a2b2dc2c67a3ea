"""Attention inside an encoder: what the mask looks at, at which resolution, and what it covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from reprl.components import Spec, build, resolve
from reprl.encoders.geometry import Grid, averaging, grid, interpolation, separable
from reprl.encoders.initialisation import RELU_GAIN, KeepsOwnWeights, orthogonal
from reprl.encoders.masks import Mask
from reprl.errors import UserError
from reprl.settings import PLACEMENT
from reprl.validation import checker

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


class Attention(KeepsOwnWeights):
    """A mask with its place in the encoder; K masks, one unless each frame has its own."""

    image_rows: Tensor
    image_columns: Tensor
    map_rows: Tensor
    map_columns: Tensor

    def __init__(
        self,
        spec: Mapping[str, Any],
        *,
        frames: int,
        trunk: Grid,
        trunk_channels: int,
        where: Literal["features", "image"] = "features",
        resolution: int | Literal["native"] = "native",
        per_frame: bool = False,
        floor: float | None = None,
    ) -> None:
        super().__init__()
        check = checker(PLACEMENT, "attention")
        where, floor = check("where", where), check("floor", floor)
        resolution = check("resolution", resolution)
        self.where, self.per_frame = where, per_frame
        self.branch: SideBranch | None = None
        self.grid = trunk
        if isinstance(resolution, int):
            size = (trunk.rows.pixels, trunk.columns.pixels)
            self.branch = SideBranch(1 if per_frame else frames, size, resolution)
            self.grid = grid(self.branch, size, "attention branch")
        elif per_frame:
            raise UserError(
                "attention.per_frame=true needs a branch that sees single frames: "
                "set attention.resolution to a number such as 21, not native."
            )
        channels = trunk_channels if self.branch is None else BRANCH_WIDTHS[-1]
        self.mask: Mask = build("attention", spec, channels=channels, size=self.grid.shape)
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

    def forward(self, images: Tensor, feature_map: Tensor | None) -> tuple[Tensor, Tensor]:
        """The gate to multiply by, and the attention to report: both (B, K, h, w)."""
        if self.branch is None:
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
            return self.floor + (1 - self.floor) * mask, mask
        return mask, mask / mask.amax(dim=(2, 3), keepdim=True).clamp(min=1e-8)

    def over_image(self, gate: Tensor) -> Tensor:
        """One weight a pixel (B, K, H, W), linear between the cells' true centres."""
        return separable(self.image_rows, self.image_columns, gate)

    def over_features(self, gate: Tensor) -> Tensor:
        """One weight a cell of the trunk (B, 1, h, w), the mean over frames with their own mask."""
        if self.branch is not None:
            gate = separable(self.map_rows, self.map_columns, gate)
        return gate.mean(dim=1, keepdim=True)


def build_attention(
    spec: Spec | None, *, frames: int, trunk: Grid, trunk_channels: int
) -> Attention | None:
    """Attention from a spec: keys of placement are taken here, the others go to the mask."""
    if isinstance(spec, Mapping) and spec and "_target_" not in spec:
        raise UserError(f"attention: {dict(spec)} names no _target_, so there is no mask to build.")
    spec = resolve("attention", spec)
    if spec is None:
        return None
    own = {k: v for k, v in spec.items() if k not in ("where", "resolution", "per_frame", "floor")}
    placement = {k: v for k, v in spec.items() if k not in own}
    # A mask is an extra: with it or without it, the same seed gives the same trunk and heads.
    with torch.random.fork_rng(devices=[]):
        return Attention(
            own, frames=frames, trunk=trunk, trunk_channels=trunk_channels, **placement
        )
