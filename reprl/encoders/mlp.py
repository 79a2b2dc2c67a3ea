"""Fully connected layers, the encoder of environments that show numbers instead of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import gymnasium as gym
import torch
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from torch import Tensor, nn

from reprl.encoders.base import Encoder, EncoderOutput
from reprl.errors import UserError
from reprl.settings import CLASSES
from reprl.validation import checker, flag

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU}


class Mlp(Encoder):
    """Numbers (B, ...) -> layers with activations -> features; it has no map and no attention.

    With `separate` the features are the numbers themselves, and policy and value have the layers
    behind them, each their own: SB3's MlpPolicy, bit for bit.
    """

    where: Tensor
    takes_numbers: ClassVar[bool] = True

    def __init__(
        self,
        observation_space: gym.Space[Any],
        *,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        separate: bool = False,
        attention: Any = None,
    ) -> None:
        check = checker(CLASSES["Mlp"])
        check("hidden", list(hidden) if isinstance(hidden, tuple) else hidden)
        check("activation", activation)
        flag("separate", separate)
        if attention is not None:
            raise UserError(
                "attention masks pictures, and encoder=mlp sees numbers: set it to none."
            )
        if is_image_space(observation_space):
            raise UserError(
                f"encoder=mlp takes numbers, and these are pictures ({observation_space}): choose "
                "encoder=nature or impala."
            )
        wide = get_flattened_obs_dim(observation_space)
        super().__init__(observation_space, features_dim=wide if separate else int(hidden[-1]))
        widths = [wide] if separate else [wide, *hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers)
        self.register_buffer("where", torch.zeros(()), persistent=False)  # it may have no layers

    @classmethod
    def heads(cls, spec: Mapping[str, Any]) -> dict[str, Any]:
        """SB3's policy arguments for what lies between the features and the last layers."""
        if not spec.get("separate", False):
            return {"net_arch": []}
        hidden = list(spec.get("hidden", (64, 64)))
        activation = ACTIVATIONS[str(spec.get("activation", "tanh"))]
        return {"net_arch": {"pi": hidden, "vf": hidden}, "activation_fn": activation}

    def encode(self, images: Tensor) -> EncoderOutput:
        features = self.layers(images)  # (B, F)
        return EncoderOutput(features, features[:, :, None, None], None)

    @torch.no_grad()
    def dry_output(self) -> EncoderOutput:
        width = get_flattened_obs_dim(self._observation_space)
        return self.encode(torch.zeros(1, width, device=self.where.device))
