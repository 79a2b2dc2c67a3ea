"""First weights: what `encoder.init` names, and which layers keep their own.

policy as SB3 makes it -> **first weights** -> optimizer. SB3 runs
`features_extractor.apply(init_weights)` in A2C and PPO: orthogonal with gain sqrt(2) and zero bias
for every Conv2d and Linear. That suits trunks of convolution and ReLU; masks and residual branches
want another gain, and an extra part should leave the rest of the policy's draws as they were.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor, nn

from reprl.rng import torch_stream

RELU_GAIN = math.sqrt(2)
SB3 = "sb3"  # of encoder.init: as SB3 and the layers themselves begin
# gain of a layer in front of an activation
GAINS = {"orthogonal": RELU_GAIN, "he": RELU_GAIN, "xavier": 1.0}
# last layers by their names in SB3's policies, and their gains: a policy begins nearly uniform
HEADS = {
    re.compile(r"action_net|mu|log_std"): 0.01,
    re.compile(r"value_net|q_net|quantile_net|qf\d+|value|advantage"): 1.0,
}
TARGET = "_target"  # ends the name of a slow copy of a network


class KeepsOwnWeights(nn.Module):
    """A module, with all its children, that SB3's initialisation passes over."""

    redraws: ClassVar[bool] = False  # whether encoder.init draws its weights all the same
    most_gain: ClassVar[float] = math.inf  # and with which gain at most

    def apply(self, fn: Callable[[nn.Module], Any]) -> Self:
        inner = fn.func if isinstance(fn, functools.partial) else fn
        return self if inner is BasePolicy.init_weights else super().apply(fn)


def orthogonal(module: nn.Module, gain: float) -> None:
    """Initialise every convolution and linear layer in `module` as SB3 does, with this gain."""
    for layer in module.modules():
        BasePolicy.init_weights(layer, gain=gain)


def initialise(policy: nn.Module, kind: str, seed: int) -> None:
    """Draw the first weights of a policy's trunk, hidden layers and heads; biases are 0.

    The draws are of a stream of their own, so that everything else begins as without it. Masks,
    memories and normalisations stay as they are, and slow copies of networks begin as these.
    """
    if kind == SB3:
        return
    generator, drawn = torch_stream(seed, "initialisation"), set[int]()
    heads = _heads(policy)

    def visit(module: nn.Module, gain: float) -> None:
        if isinstance(module, KeepsOwnWeights):
            if not module.redraws:
                return
            gain = min(gain, module.most_gain)
        if isinstance(module, nn.Conv2d | nn.Linear) and id(module) not in drawn:
            drawn.add(id(module))  # actor and critic may share it
            fresh = first_weights(module.weight.shape, kind, heads.get(id(module), gain), generator)
            with torch.no_grad():
                module.weight.copy_(fresh)
                if module.bias is not None:
                    module.bias.zero_()
        for name, child in module.named_children():
            if not name.endswith(TARGET):
                visit(child, gain)

    visit(policy, GAINS[kind])
    for name, network in policy.named_children():
        if (copy := getattr(policy, f"{name}{TARGET}", None)) is not None:
            copy.load_state_dict(network.state_dict())


def first_weights(shape: torch.Size, kind: str, gain: float, generator: torch.Generator) -> Tensor:
    """Weights (out, in, ...) of one layer.

    orthogonal: rows, or where there are more of them columns, are orthogonal and `gain` long (Saxe
    et al. 2013). he: normal, with variance gain^2 / fan_in (He et al. 2015). xavier: uniform, with
    variance gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio 2010).
    """
    found = torch.empty(shape)
    if kind == "orthogonal":
        return nn.init.orthogonal_(found, gain, generator=generator)
    if kind == "xavier":
        return nn.init.xavier_uniform_(found, gain, generator=generator)
    assert kind == "he", kind
    return nn.init.normal_(found, 0.0, gain / math.sqrt(found[0].numel()), generator=generator)


def _heads(policy: nn.Module) -> dict[int, float]:
    """The last layers of a policy's networks, by identity, with their gains."""
    found: dict[int, float] = {}
    for name, module in policy.named_modules():
        if "features_extractor" in name:
            continue  # whatever its layers are called
        for pattern, gain in HEADS.items():
            if pattern.fullmatch(name.rpartition(".")[2]):
                layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
                found |= {id(layer): gain for layer in layers[-1:]}
    return found
