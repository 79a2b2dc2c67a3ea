"""The encoder's interface: images in; features, feature map and attention out.

Everything after the rollout (policy heads, auxiliary losses, attention tools) sees an agent's
representation only through `Encoder.encode` and `Encoder.project`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from reprl.errors import UserError
from reprl.instances import RemembersArguments


def as_images(
    observations: Tensor, layout: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """uint8 (B, stack, H, W) as encoders take them: float32 in [0, 1], laid out as asked."""
    if layout is not torch.channels_last:
        return observations.float() / 255.0
    # Interleaved while they are bytes, then made float in one pass: a third of the time that
    # torch's own change of layout, a compiled one, or float frames copied one by one took.
    interleaved = torch.stack(observations.unbind(1), dim=-1)  # (B, H, W, stack)
    return interleaved.float().div_(255.0).permute(0, 3, 1, 2)


@dataclass
class EncoderOutput:
    """What one forward pass of an encoder gives; B images, F features, C channels, K masks."""

    features: Tensor  # (B, F), what the policy and value heads read
    feature_map: Tensor  # (B, C, h, w), the trunk's last map, after the mask where one is applied
    attention: Tensor | None  # (B, K, h, w) in [0, 1] before the floor, or None without a mask


class Encoder(RemembersArguments, BaseFeaturesExtractor):
    """An SB3 features extractor that can also say where it looked."""

    takes_numbers: ClassVar[bool] = False  # instead of pictures

    @classmethod
    def heads(cls, spec: Mapping[str, Any]) -> dict[str, Any]:
        """SB3's policy arguments for what lies between the features and the last layers: nothing.

        SB3 adds hidden layers behind any extractor but its own NatureCNN.
        """
        return {"net_arch": []}

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
