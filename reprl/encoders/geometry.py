"""Where a cell of a feature map looks: receptive fields read off the layers, and maps onto pixels.

Coordinates are pixel centres: the first pixel of an image lies at 0, the last of 84 at 83.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reprl.errors import UserError

WINDOWS = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)


@dataclass(frozen=True)
class Axis:
    """One axis of a feature map: cells at `first + stride * i`, each seeing `field` pixels."""

    pixels: int
    cells: int
    first: float
    stride: int
    field: int

    def centres(self, pixels: int | None = None) -> Tensor:
        """Cell centres (cells,), in an image of another size if `pixels` is given."""
        own = self.first + self.stride * torch.arange(self.cells, dtype=torch.float64)
        return own if pixels is None else (own + 0.5) * (pixels / self.pixels) - 0.5


@dataclass(frozen=True)
class ReceptiveFields:
    """The receptive fields of a whole feature map."""

    rows: Axis
    columns: Axis

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.cells, self.columns.cells


def pair(value: int | tuple[int, ...] | None, default: int = 0) -> tuple[int, int]:
    if value is None:
        return default, default
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _windows(network: nn.Module, axis: int) -> Iterator[tuple[nn.Module, int, int, int, int]]:
    # modules() walks in the order of registration, which is the order of the layers. A residual
    # branch is walked as part of the chain: its stride-1 layers widen the field and move nothing.
    for layer in network.modules():
        if isinstance(layer, WINDOWS):
            kernel, stride = pair(layer.kernel_size)[axis], pair(layer.stride)[axis]
            padding = layer.padding
            assert not isinstance(padding, str), "write padding as a number of pixels"
            dilation = pair(getattr(layer, "dilation", 1))[axis]
            yield layer, (kernel - 1) * dilation, stride, pair(padding)[axis], kernel


def _trace(network: nn.Module, pixels: int, axis: int) -> tuple[Axis, str]:
    """The axis, and why these pixels do not fit (empty if they do)."""
    cells, first, jump, field = pixels, 0.0, 1, 1
    problem = ""
    for layer, extent, stride, padding, kernel in _windows(network, axis):
        spare = cells + 2 * padding - extent - 1
        if spare < 0:
            return Axis(pixels, 0, first, jump, field), f"too small for its {kernel}-wide layer"
        unseen = spare % stride - padding
        if unseen > 0 and not problem:
            name = f"{type(layer).__name__} {kernel}/{stride}"
            problem = f"its layer {name} leaves the last {unseen} of {cells} positions unseen"
        cells = spare // stride + 1
        first += (extent / 2 - padding) * jump
        field += extent * jump
        jump *= stride
    return Axis(pixels, cells, first, jump, field), problem


def grid(network: nn.Module, size: tuple[int, int], name: str) -> ReceptiveFields:
    """Trace a network of convolutions and poolings over an image, refusing sizes it cannot see."""
    axes = []
    for axis, pixels in enumerate(size):
        traced, problem = _trace(network, pixels, axis)
        if problem:
            near = sorted(range(1, 2 * pixels + 128), key=lambda n: (abs(n - pixels), n))
            fit = [n for n in near if not _trace(network, n, axis)[1]][:2]
            raise UserError(
                f"encoder {name} cannot take images of {size[0]}x{size[1]} pixels: {problem}; "
                f"the nearest sides that fit are {' and '.join(map(str, sorted(fit)))}."
            )
        axes.append(traced)
    return ReceptiveFields(*axes)


def gaussians(axis: Axis, pixels: int) -> Tensor:
    """(pixels, cells): each cell's mass over the pixels, summing to 1 also at the border."""
    scale = pixels / axis.pixels
    distance = torch.arange(pixels, dtype=torch.float64)[:, None] - axis.centres(pixels)[None]
    # softmax over pixels = a Gaussian normalised over those inside the image
    return torch.softmax(-0.5 * (distance / (0.5 * axis.stride * scale)) ** 2, dim=0).float()


def interpolation(axis: Axis) -> Tensor:
    """(pixels, cells): linear between cell centres, constant beyond them; rows sum to 1."""
    place = (torch.arange(axis.pixels, dtype=torch.float64) - axis.first) / axis.stride
    place = place.clamp(0, axis.cells - 1)[:, None]
    return (1 - (place - torch.arange(axis.cells)[None]).abs()).clamp(min=0).float()


def averaging(fine: Axis, coarse: Axis) -> Tensor:
    """(coarse, fine): what a coarse cell sees of a finer map, as Gaussian means; rows sum to 1."""
    distance = coarse.centres()[:, None] - fine.centres()[None]
    return torch.softmax(-0.5 * (distance / (0.5 * coarse.stride)) ** 2, dim=1).float()


def separable(rows: Tensor, columns: Tensor, maps: Tensor) -> Tensor:
    """Apply (H, h) and (W, w) to the two axes of maps (B, K, h, w) -> (B, K, H, W)."""
    return rows.to(maps) @ maps @ columns.to(maps).T
