"""Views: the ways to ask a network where it looks, all in one form.

A view gives `cells`, a map as coarse as it really is, and projects it onto pixels; the agent's
own mask and the saliency methods of an agent without one can then be scored and drawn alike.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from reprl.analysis.attention.network import Network
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.policy import State
from reprl.schema import ATTRIBUTIONS
from reprl.validation import choice


class Attribution:
    """Where a network looks in a batch of images; subclasses say how to find out."""

    name: str
    every = 1  # look at each n-th step only, where looking is slow

    def __init__(self, network: Network) -> None:
        self.network = network

    def cells(self, images: Tensor, *state: Tensor) -> Tensor:
        """Attention of each image (B, 1, h, w), not negative, at the view's own resolution.

        `state` is what an agent with a memory carried into these moments, rows first.
        """
        raise AssertionError(f"{type(self).__name__} must define cells()")

    def project(self, cells: Tensor, size: int | tuple[int, int]) -> Tensor:
        """Cells (B, 1, h, w) on the pixels of a picture (B, 1, H, W), keeping each map's mass."""
        shape = (size, size) if isinstance(size, int) else size
        maps = functional.interpolate(cells, shape, mode="bilinear", align_corners=False)
        mass = maps.sum(dim=(2, 3), keepdim=True)
        return maps * cells.sum(dim=(2, 3), keepdim=True) / mass.clamp(min=1e-12)

    def visibility(self, cells: Tensor) -> Tensor:
        """What is left of each pixel of the observation, (B, 1, H, W) in [0, 1]."""
        maps = self.project(cells, self.network.shape[1:])
        return maps / maps.amax(dim=(2, 3), keepdim=True).clamp(min=1e-12)

    def basis(self, size: tuple[int, int]) -> np.ndarray | None:
        """What a single cell looks like on pixels, for every cell (M, H, W); None if a pixel."""
        return None


class MaskView(Attribution):
    """The attention mask the agent itself multiplies by."""

    name = "mask"

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        encoder = network.extractor
        if not isinstance(encoder, Encoder) or (dry := encoder.dry_output().attention) is None:
            others = ", ".join(m for m in ATTRIBUTIONS if m != "mask")
            raise UserError(f"this agent has no attention mask: use method= one of {others}.")
        self.encoder = encoder
        self.grid = (dry.shape[2], dry.shape[3])

    @torch.no_grad()
    def cells(self, images: Tensor, *state: Tensor) -> Tensor:
        attention = self.encoder.encode(images).attention
        assert attention is not None
        # With a mask per frame the newest one is what the ground truth belongs to.
        return attention[:, -1:]

    def project(self, cells: Tensor, size: int | tuple[int, int]) -> Tensor:
        return self.encoder.project(cells, size)

    def visibility(self, cells: Tensor) -> Tensor:
        return self.encoder.visibility(cells)

    @torch.no_grad()
    def basis(self, size: tuple[int, int]) -> np.ndarray | None:
        if self.grid == self.network.shape[1:]:
            return None
        count = self.grid[0] * self.grid[1]
        single = torch.eye(count, device=self.network.device).view(count, 1, *self.grid)
        return self.project(single, size)[:, 0].cpu().numpy()


def has_mask(network: Network) -> bool:
    """Whether the agent carries a mask of its own."""
    encoder = network.extractor
    return isinstance(encoder, Encoder) and encoder.dry_output().attention is not None


def make_view(network: Network, method: str | None = None) -> Attribution:
    """The view a user names; without a name the agent's mask, or gradients if it has none."""
    from reprl.analysis.attention.saliency import GradCam, Gradient, Integrated, Perturbation

    if method is None:
        method = "mask" if has_mask(network) else "gradient"
    kinds: list[type[Attribution]] = [MaskView, Gradient, Integrated, Perturbation, GradCam]
    found = dict(zip(ATTRIBUTIONS, kinds, strict=True))
    return found[choice("method", method, ATTRIBUTIONS)](network)


def limits(view: Attribution, method: str | None) -> list[str]:
    """What this agent has not, in a sentence each."""
    found = []
    if method is None and view.name != "mask":
        others = ", ".join(m for m in ATTRIBUTIONS if m not in ("mask", view.name))
        found.append(
            f"this agent has no attention mask: its {view.name} is shown (method= also takes "
            f"{others})."
        )
    if (explained := view.network.player.explains) != "logits" and view.name != "mask":
        found.append(f"this agent has no action logits: its {explained} are explained instead.")
    return found


def look(view: Attribution, observations: np.ndarray, state: State = (), batch: int = 64) -> Tensor:
    """Cells (N, 1, h, w) of observations (N, C, H, W) and states, some at a time."""
    parts = []
    for i in range(0, len(observations), batch):
        some = slice(i, i + batch)
        images = view.network.images(observations[some])
        parts.append(view.cells(images, *(part[some] for part in state)).detach().cpu())
    return torch.cat(parts)


def pixel_maps(view: Attribution, cells: Tensor, size: int | tuple[int, int]) -> np.ndarray:
    """Cells (N, 1, h, w) as maps (N, H, W) on a picture, float32."""
    device = view.network.device
    parts = [view.project(part.to(device), size)[:, 0].cpu() for part in cells.split(256)]
    return torch.cat(parts).numpy()
