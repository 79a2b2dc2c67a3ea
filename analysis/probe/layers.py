"""The activations of every layer of encoder and heads, and the same network before any training.

observations -> **activations by layer name**, which the probes read. A layer is a module with
weights; where an activation function follows it directly, what comes out of that is meant.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor, nn

from reprl import rng
from reprl.encoders.initialisation import RELU_GAIN
from reprl.errors import UserError
from reprl.policy import ContinuousPlayer, PolicyPlayer, State, player_of

MOST_INPUTS = 16_384  # of a map; a larger one is shrunk by means of 2x2, 3x3, ... cells
BATCH = 32
FUNCTIONS = tuple(
    getattr(nn, name)
    for name in ("ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softplus")
)


def prober(model: Any) -> PolicyPlayer:
    """The player of a model whose layers can be read."""
    if getattr(model, "policy", None) is None:
        raise UserError(f"probes need a trained agent, and {type(model).__name__} has no policy.")
    player = player_of(model)
    if not isinstance(player, PolicyPlayer):
        raise UserError(
            f"probes need to know which network {type(model).__name__} plays with: derive its "
            "player from reprl.policy.PolicyPlayer."
        )
    return player


def untrained(player: PolicyPlayer, seed: int) -> PolicyPlayer:
    """The same network with first weights drawn anew, as SB3 draws them."""
    # after training SB3's policy holds its last distribution, with a graph that cannot be copied
    empty = np.zeros((1, *player.policy.observation_space.shape), np.uint8)
    if isinstance(player, ContinuousPlayer):
        player.policy.predict(empty, deterministic=True)
    else:
        player.outputs(empty, player.initial_state(1))
    fresh = copy.deepcopy(player)
    # torch draws orthogonal weights only into memory of the usual layout
    fresh.policy.to(memory_format=torch.contiguous_format)
    with rng.isolated():
        torch.manual_seed(rng.stream_seed(seed, "probe", "untrained"))
        for module in fresh.policy.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        fresh.policy.apply(functools.partial(BasePolicy.init_weights, gain=RELU_GAIN))
    return fresh


@torch.no_grad()
def activations(
    player: PolicyPlayer, observations: np.ndarray, state: State = ()
) -> dict[str, np.ndarray]:
    """Of every layer, (n, units) float32, in the order in which they are computed."""
    policy = player.policy
    training, caught, handles = policy.training, _Caught(), []
    found: dict[str, list[np.ndarray]] = {}
    policy.set_training_mode(False)
    try:
        for name, module in policy.named_modules():
            if not any(True for _ in module.children()):
                handles.append(module.register_forward_hook(caught.hook(_short(name))))
        for start in range(0, len(observations), BATCH):
            rows = slice(start, start + BATCH)
            caught.clear()
            batch = torch.as_tensor(observations[rows], device=policy.device)
            player.forward(batch, tuple(part[rows] for part in state))
            for name, output in caught.layers.items():
                found.setdefault(name, []).append(_flat(output))
    finally:
        for handle in handles:
            handle.remove()
        policy.set_training_mode(training)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def layer_modules(player: PolicyPlayer) -> dict[str, nn.Module]:
    """The module with weights behind each name of `activations`, in no particular order."""
    return {
        _short(name): module
        for name, module in player.policy.named_modules()
        if not any(True for _ in module.children())
        and any(True for _ in module.parameters(recurse=False))
    }


class _Caught:
    """What came out of each layer in one forward pass, the last time where there are several."""

    def __init__(self) -> None:
        self.layers: dict[str, Tensor] = {}
        self._last: tuple[str, Tensor] | None = None

    def clear(self) -> None:
        self.layers, self._last = {}, None

    def hook(self, name: str) -> Any:
        def catch(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if not isinstance(output, Tensor) or output.dim() < 2:
                return
            if any(True for _ in module.parameters(recurse=False)):
                self._last = (name, output)
                self.layers[name] = output
            elif isinstance(module, FUNCTIONS) and self._last and inputs[0] is self._last[1]:
                self.layers[self._last[0]] = output

        return catch


def pooled(maps: Tensor) -> Tensor:
    """Maps (n, C, h, w) with at most MOST_INPUTS values a frame, by means of neighbours."""
    factor = 1
    while maps.dim() == 4 and maps[0].numel() > MOST_INPUTS * factor**2:
        factor += 1
    if factor == 1:
        return maps
    return nn.functional.avg_pool2d(maps, factor, ceil_mode=True)


def pixels(observations: np.ndarray) -> np.ndarray:
    """The agent's own picture (n, C, H, W) as inputs of a probe, (n, inputs) in [0, 1]."""
    parts = [
        _flat(torch.as_tensor(observations[start : start + BATCH]).float() / 255)
        for start in range(0, len(observations), BATCH)
    ]
    return np.concatenate(parts)


def _flat(output: Tensor) -> np.ndarray:
    found: np.ndarray = pooled(output.float()).flatten(1).cpu().numpy().copy()
    return found


def _short(name: str) -> str:
    """A parameter's path without the words that all layers of an encoder share."""
    return name.removeprefix("features_extractor.")
