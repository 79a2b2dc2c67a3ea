"""The encoder every trunk shares: convolutions, an optional mask, one linear layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from reprl.components import Spec
from reprl.encoders.attention import build_attention
from reprl.encoders.base import Encoder, EncoderOutput
from reprl.encoders.geometry import ReceptiveFields, gaussians, grid, separable
from reprl.encoders.inputs import Input
from reprl.errors import UserError
from reprl.settings import ENCODER
from reprl.validation import checker


def image_shape(space: gym.Space[Any]) -> tuple[int, int, int]:
    """(stack, H, W) of an image space, or a refusal."""
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 3:
        raise UserError(f"an encoder needs images of shape (stack, height, width), not {space}.")
    return space.shape[0], space.shape[1], space.shape[2]


class ConvEncoder(Encoder):
    """Trunk -> (mask) -> flatten or pool -> linear -> ReLU, laid out as SB3's NatureCNN.

    `trunk` is the layers, or a function to them from the number of channels it is fed, which
    `input` decides. The order of construction (trunk, linear, mask) is also the order in which SB3
    draws first weights, so without a mask the draws are SB3's own.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        trunk: nn.Sequential | Callable[[int], nn.Sequential],
        *,
        features_dim: int = 512,
        global_pool: bool = False,
        attention: Spec | None = None,
        dropout: float = 0.0,
        input: str = "frames",
        contrast: int = 0,
        threshold: float = 0.0,
    ) -> None:
        check = checker(ENCODER, self)
        features_dim, dropout = check("features_dim", features_dim), check("dropout", dropout)
        frames, height, width = image_shape(observation_space)
        super().__init__(observation_space, features_dim)
        self.input = Input(frames=frames, kind=input, contrast=contrast, threshold=threshold)
        channels = self.input.channels
        if not isinstance(trunk, nn.Module):
            trunk = trunk(channels)
        self.cnn = trunk
        self._require_channels(channels)
        self.grid: ReceptiveFields = grid(trunk, (height, width), type(self).__name__)
        with torch.no_grad():
            feature_map = trunk(torch.zeros(1, channels, height, width))
        self.pool = nn.AdaptiveAvgPool2d(1) if global_pool else nn.Identity()
        inputs = self.pool(feature_map).numel()
        self.linear = nn.Sequential(nn.Linear(inputs, features_dim), nn.ReLU())
        self.dropout = nn.Dropout(dropout)
        self.attention = build_attention(
            attention,
            frames=frames,
            channels=channels,
            trunk=self.grid,
            trunk_channels=feature_map.shape[1],
        )

    def _require_channels(self, channels: int) -> None:
        first = next((m for m in self.cnn.modules() if isinstance(m, nn.Conv2d)), None)
        if first is not None and first.in_channels != channels:
            raise UserError(
                f"encoder.input={self.input.kind} feeds {channels} channels, but the trunk of "
                f"{type(self).__name__} takes {first.in_channels}: give ConvEncoder a function "
                "from the number of channels to the trunk."
            )

    def encode(self, images: Tensor) -> EncoderOutput:
        look = self.attention
        attention = None
        fed = self.input(images)  # (B, channels, H, W), the images themselves unless told
        if look is None:
            feature_map = self.cnn(fed)
        elif look.where == "features":
            feature_map = self.cnn(fed)
            gate, attention = look(fed, feature_map, images)
            feature_map = feature_map * look.over_features(gate)
        else:
            # at native resolution the trunk looks twice: at the whole image, then at the masked one
            whole = self.cnn(fed) if look.branch is None else None
            gate, attention = look(fed, whole, images)
            feature_map = self.cnn(fed * look.over_image(gate))
        features = self.linear(self.pool(feature_map).flatten(1))
        return EncoderOutput(self.dropout(features), feature_map, attention)

    def attend(self, images: Tensor) -> Tensor | None:
        look = self.attention
        if look is None or look.branch is None:
            return super().attend(images)
        return look(self.input(images), None, images)[1]  # a side branch does without the trunk

    def project(self, attention: Tensor, size: int | tuple[int, int]) -> Tensor:
        """Spread cells (B, K, h, w) over pixels (B, K, H, W), keeping each map's mass.

        The cells are those of the encoder's mask, or the trunk's where there is no mask; `size`
        may differ from the observation's, such as the raw screen's (210, 160).
        """
        own = self.grid if self.attention is None else self.attention.grid
        return _spread(attention, own, size, "project_features() takes the trunk's")

    def project_features(self, cells: Tensor, size: int | tuple[int, int]) -> Tensor:
        """The same for any map over the trunk's cells, such as Grad-CAM's.

        A mask's grid may have as many cells as the trunk's and lie elsewhere, so that the shape
        alone does not tell.
        """
        return _spread(cells, self.grid, size, "project() takes the mask's")

    def visibility(self, attention: Tensor) -> Tensor:
        """What attention (B, K, h, w) leaves of each pixel: (B, K, H, W) in [0, 1], no floor."""
        if self.attention is None:
            raise UserError("visibility() needs an encoder with an attention mask.")
        return self.attention.over_image(self.attention.harden(attention))


def _spread(
    maps: Tensor, cells: ReceptiveFields, size: int | tuple[int, int], otherwise: str
) -> Tensor:
    if cells.shape != tuple(maps.shape[-2:]):
        raise UserError(
            f"cannot project a map of {tuple(maps.shape)}: expected {cells.shape[0]}x"
            f"{cells.shape[1]} cells; {otherwise}."
        )
    height, width = (size, size) if isinstance(size, int) else size
    return separable(gaussians(cells.rows, height), gaussians(cells.columns, width), maps)
