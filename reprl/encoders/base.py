"""The encoder's interface: images in; features, feature map and attention out.

Everything after the rollout (policy heads, auxiliary losses, attention tools) sees an agent's
representation only through `Encoder.encode` and `Encoder.project`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from reprl.errors import UserError


def as_images(
    observations: Tensor, layout: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """uint8 (B, stack, H, W) as encoders take them: float32 in [0, 1], laid out as asked."""
    if layout is torch.contiguous_format:
        return observations.float() / 255.0
    images = torch.empty(
        observations.shape, dtype=torch.float32, device=observations.device, memory_format=layout
    )
    # Frame by frame: twice as fast on a CPU as torch's own change of layout, or a compiled one.
    for frame in range(observations.shape[1]):
        images[:, frame].copy_(observations[:, frame])
    return images.div_(255.0)


@dataclass
class EncoderOutput:
    """What one forward pass of an encoder gives; B images, F features, C channels, K masks."""

    features: Tensor  # (B, F), what the policy and value heads read
    feature_map: Tensor  # (B, C, h, w), the trunk's last map, after the mask where one is applied
    attention: Tensor | None  # (B, K, h, w) in [0, 1] before the floor, or None without a mask


class Encoder(BaseFeaturesExtractor):
    """An SB3 features extractor that can also say where it looked."""

    def encode(self, images: Tensor) -> EncoderOutput:
        """Encode float images (B, C, H, W) in [0, 1]."""
        raise AssertionError(f"{type(self).__name__} must define encode()")

    def attend(self, images: Tensor) -> Tensor | None:
        """The attention (B, K, h, w) of `encode` alone; None without a mask."""
        return self.encode(images).attention

    def forward(self, images: Tensor) -> Tensor:
        return self.encode(images).features

    def project(self, attention: Tensor, size: int | tuple[int, int]) -> Tensor:
        """Spread (B, K, h, w) cells over (B, K, H, W) pixels through the receptive field."""
        raise AssertionError(f"{type(self).__name__} must define project()")

    def visibility(self, attention: Tensor) -> Tensor:
        """What attention (B, K, h, w) leaves of each pixel: (B, K, H, W) in [0, 1], no floor."""
        shape = self._observation_space.shape
        assert shape is not None
        size = (shape[1], shape[2])
        # `project` keeps mass; a mask that is all ones shows its brightest pixel fully.
        full = self.project(torch.ones_like(attention[:1]), size)
        return self.project(attention, size) / full.amax(dim=(2, 3), keepdim=True)

    def check(self) -> None:
        """Encode one black image: a wrong encoder should fail now, not in the first rollout."""
        name, width = type(self).__name__, self.features_dim
        with torch.random.fork_rng(devices=[]):
            output = self.dry_output()
        if not isinstance(output, EncoderOutput):
            kind = type(output).__name__
            raise UserError(f"{name}.encode() must return an EncoderOutput, got {kind}.")
        if output.features.shape != (1, width):
            raise UserError(
                f"{name}.encode() gives features of shape {tuple(output.features.shape)} for one "
                f"image, but its features_dim asks for (1, {width})."
            )
        if (mask := output.attention) is not None and not (mask.min() >= 0 and mask.max() <= 1):
            raise UserError(
                f"{name} gives attention from {mask.min():g} to {mask.max():g}: it must be within "
                "0 and 1, where a mask without that bound says bounded = False in its class."
            )

    @torch.no_grad()
    def dry_output(self) -> EncoderOutput:
        """The output for one black image: how heads learn the shapes they must fit."""
        shape = self._observation_space.shape
        assert shape is not None
        device = next(self.parameters()).device
        training = self.training
        self.eval()
        output = self.encode(torch.zeros(1, *shape, device=device))
        self.train(training)
        return output
