"""Which layers keep their own first weights when SB3 initialises a policy.

SB3 runs `features_extractor.apply(init_weights)`: orthogonal with gain sqrt(2) and zero bias for
every Conv2d and Linear. That suits trunks of convolution and ReLU; masks and residual branches
want another gain, and an extra part should leave the rest of the policy's draws as they were.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Self

from stable_baselines3.common.policies import BasePolicy
from torch import nn

RELU_GAIN = math.sqrt(2)


class KeepsOwnWeights(nn.Module):
    """A module, with all its children, that SB3's initialisation passes over."""

    def apply(self, fn: Callable[[nn.Module], Any]) -> Self:
        inner = fn.func if isinstance(fn, functools.partial) else fn
        return self if inner is BasePolicy.init_weights else super().apply(fn)


def orthogonal(module: nn.Module, gain: float) -> None:
    """Initialise every convolution and linear layer in `module` as SB3 does, with this gain."""
    for layer in module.modules():
        BasePolicy.init_weights(layer, gain=gain)
