"""Attributions: the ways to ask a network where it looks, all in one form.

Each gives `cells`, a map as coarse as it really is, and projects it onto pixels; the agent's own
mask and the saliency of an agent without one can then be scored and drawn alike. Gradients are
those of the newest frame, which the ground truth belongs to; perturbation and Grad-CAM touch all
frames of the stack at once.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from captum.attr import IntegratedGradients, Saliency
from torch import Tensor, nn
from torch.nn import functional

from reprl.analysis.attention.network import Network
from reprl.encoders.base import Encoder
from reprl.encoders.geometry import ReceptiveFields, gaussians, grid, separable
from reprl.errors import UserError
from reprl.policy import State
from reprl.schema import ATTRIBUTIONS, LOOKS_EVERY
from reprl.validation import choice


class Attribution:
    """Where a network looks in a batch of images; subclasses say how to find out."""

    name: str
    numbers = "the critic's value"  # what it explains of an agent with continuous actions
    every = 1  # look at each n-th step only, where looking is slow

    def __init__(self, network: Network) -> None:
        self.network = network

    @property
    def words(self) -> str:
        """What pictures call it: of continuous actions its name does not say what it explains."""
        explained = self.numbers if self.network.continuous else ""
        return f"{self.name} of {explained}" if explained else self.name

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
    numbers = ""  # it explains nothing: it is what the agent does

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


# -- saliency: all of these explain the action the agent likes best --------------------------------


class Gradient(Attribution):
    """|d logit of the best action / d pixel|, or of the critic's value of the preferred one."""

    name = "gradient"

    def cells(self, images: Tensor, *state: Tensor) -> Tensor:
        found = self._attribute(images, self.network.best(images, *state), state)
        newest = found.detach()[:, -self.network.channels :]
        return newest.abs().amax(dim=1, keepdim=True)  # (B, 1, H, W)

    def _attribute(self, images: Tensor, action: Tensor, state: State) -> Tensor:
        inputs = images.detach().clone().requires_grad_()
        method = Saliency(self.network.worth)
        result: Tensor = method.attribute(inputs, additional_forward_args=(action, *state))
        return result


class Integrated(Gradient):
    """Gradients summed on the way from a black picture to the image (integrated gradients)."""

    name = "integrated"
    steps = 16

    def _attribute(self, images: Tensor, action: Tensor, state: State) -> Tensor:
        method = IntegratedGradients(self.network.worth)
        result: Tensor = method.attribute(
            images,
            additional_forward_args=(action, *state),
            n_steps=self.steps,
            internal_batch_size=256,
        )
        return result.float()


class Perturbation(Attribution):
    """Blur a spot and see how much the policy changes: 0.5 ||pi(I) - pi(I')||^2 (Greydanus 2018).

    pi are the logits, without the offset that a softmax ignores: probabilities of a policy that
    is certain hardly move. Of continuous actions pi is the action it prefers.
    """

    name = "perturbation"
    numbers = "the action"
    every = LOOKS_EVERY[name]
    blur = 3.0  # sigma of what replaces a spot
    spot = 5.0  # sigma of the spot itself
    stride = 4

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        height, width = network.shape[1:]
        rows, columns = (self._profiles(side) for side in (height, width))  # (h, H), (w, W)
        self.grid = (len(rows), len(columns))
        self.spots = torch.einsum("ay,bx->abyx", rows, columns).flatten(0, 1)  # (h*w, H, W)

    def _profiles(self, side: int) -> Tensor:
        # Centred on blocks of `stride` pixels, so that resizing the scores puts them back there.
        cells = -(-side // self.stride)
        centres = (torch.arange(cells) + 0.5) * side / cells - 0.5
        return torch.exp(-0.5 * ((torch.arange(side) - centres[:, None]) / self.spot) ** 2)

    @torch.no_grad()
    def cells(self, images: Tensor, *state: Tensor) -> Tensor:
        spots = self.spots.to(images.device).unsqueeze(1)  # (M, 1, H, W)
        before = self.network.response(images, *state)
        blurred = blur(images, self.blur)
        scores = []
        for row, (image, smooth, said) in enumerate(zip(images, blurred, before, strict=True)):
            parts = []
            for some in spots.split(128):
                past = (part[row : row + 1].expand(len(some), *part.shape[1:]) for part in state)
                parts.append(self.network.response(image * (1 - some) + smooth * some, *past))
            scores.append(0.5 * (torch.cat(parts) - said).square().sum(dim=1))  # (M,)
        return torch.stack(scores).view(len(images), 1, *self.grid)


class GradCam(Attribution):
    """The last feature map, weighted by the gradient of the best action, its positive part."""

    name = "gradcam"

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.layer, self.cells_at = last_map(network)

    def cells(self, images: Tensor, *state: Tensor) -> Tensor:
        kept: list[Tensor] = []

        def keep(_: nn.Module, __: Any, output: Tensor) -> None:
            kept.append(output)

        action = self.network.best(images, *state)
        handle = self.layer.register_forward_hook(keep)
        try:
            # Frozen or not, the map needs a gradient: the images carry it there.
            worth = self.network.worth(images.detach().clone().requires_grad_(), action, *state)
        finally:
            handle.remove()
        feature_map = kept[-1]  # an encoder that masks its image may look twice
        (slope,) = torch.autograd.grad(worth.sum(), feature_map)
        weights = slope.mean(dim=(2, 3), keepdim=True)
        return (weights * feature_map).sum(dim=1, keepdim=True).relu().detach()

    def project(self, cells: Tensor, size: int | tuple[int, int]) -> Tensor:
        height, width = (size, size) if isinstance(size, int) else size
        rows = gaussians(self.cells_at.rows, height)
        return separable(rows, gaussians(self.cells_at.columns, width), cells)

    @torch.no_grad()
    def basis(self, size: tuple[int, int]) -> np.ndarray | None:
        shape = self.cells_at.shape
        single = torch.eye(shape[0] * shape[1]).view(-1, 1, *shape)
        return self.project(single, size)[:, 0].numpy()


def last_map(network: Network) -> tuple[nn.Module, ReceptiveFields]:
    """The trunk's last layer that still has places, and where its cells are."""
    trunk = getattr(network.judge, "cnn", None)
    if not isinstance(trunk, nn.Sequential):
        raise UserError(
            f"method=gradcam needs an encoder with a convolutional trunk named cnn, "
            f"{type(network.judge).__name__} has none."
        )
    if isinstance(network.judge, Encoder):
        layers = list(trunk)
    else:  # SB3's NatureCNN flattens inside its trunk
        flat = [i for i, layer in enumerate(trunk) if isinstance(layer, nn.Flatten)]
        layers = list(trunk)[: flat[0]] if flat else list(trunk)
    name = type(network.judge).__name__
    return layers[-1], grid(nn.Sequential(*layers), network.shape[1:], name)


def blur(images: Tensor, sigma: float) -> Tensor:
    """Every frame of a batch (B, C, H, W) under a Gaussian blur."""
    flat = images.detach().cpu().numpy().reshape(-1, *images.shape[2:])
    smooth = np.stack([cv2.GaussianBlur(frame, (0, 0), sigma) for frame in flat])
    return torch.from_numpy(smooth).view(images.shape).to(images)


# -- the choice -----------------------------------------------------------------------------------


def has_mask(network: Network) -> bool:
    """Whether the agent carries a mask of its own."""
    encoder = network.extractor
    return isinstance(encoder, Encoder) and encoder.dry_output().attention is not None


def make_view(network: Network, method: str | None = None) -> Attribution:
    """The view a user names; without a name the agent's mask, or gradients if it has none."""
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
    network = view.network
    if (explained := network.player.explains) == "logits" or view.name == "mask":
        return found
    if network.continuous and view.name == "perturbation":
        explained = "preferred actions"
    elif network.judge is not network.extractor:
        found.append(
            "the critic has an encoder of its own: this is where the critic looks, and "
            "method=perturbation shows what moves the actor."
        )
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


def even_maps(view: Attribution, cells: Tensor, size: int | tuple[int, int]) -> np.ndarray:
    """What maps of the same mass would have on a picture were they even: (N, H, W), above 0."""
    even = torch.ones_like(cells) * cells.mean(dim=(2, 3), keepdim=True)
    return np.maximum(pixel_maps(view, even, size), 1e-12)
