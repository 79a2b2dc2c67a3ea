"""Plasticity: can a trained encoder still learn something new, as well as an untrained one can?

checkpoint -> its encoder, and a fresh one of the same shape -> both are fitted to random numbers
on the same pictures by the same steps -> how much of the numbers' variance each explains.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reprl.encoders.base import Encoder, as_images
from reprl.errors import UserError
from reprl.policy import player_of
from reprl.rng import numpy_stream, stream_seed, torch_stream

TARGETS = 8  # random numbers that each picture is to be told by
RATE = 1e-3  # of Adam
BATCH = 64


@dataclass(frozen=True)
class Plasticity:
    """Shares of the random numbers' variance that were fitted, 1 is all."""

    trained: float
    fresh: float

    @property
    def ratio(self) -> float:
        """1: as plastic as an untrained network; below a half much of it is lost."""
        return self.trained / self.fresh if self.fresh > 0 else float("nan")


def measure(model: Any, observations: np.ndarray, *, steps: int, seed: int) -> Plasticity:
    """Fit a model's encoder and a fresh one to random targets; the model itself stays as it is."""
    encoder, specs = getattr(player_of(model), "extractor", None), getattr(model, "specs", None)
    if not isinstance(encoder, Encoder) or specs is None or specs.encoder is None:
        raise UserError("plasticity is measured of an encoder of reprl, and this agent has none.")
    fresh = fresh_encoder(model, seed)
    pictures = torch.from_numpy(observations).to(model.device)
    trained = copy.deepcopy(encoder)
    return Plasticity(
        *(fitted_share(network, pictures, steps=steps, seed=seed) for network in (trained, fresh))
    )


def fresh_encoder(model: Any, seed: int) -> nn.Module:
    """An untrained encoder like the model's, begun as `encoder.init` says."""
    from reprl.algorithms.on_policy import begin_weights, build_encoder

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "plasticity", "fresh"))
        fresh = build_encoder(model.observation_space, spec=model.specs.encoder)
    # by the name that it has in a policy, whose heads begin otherwise
    begin_weights(nn.ModuleDict({"features_extractor": fresh}), model.specs, seed)
    return fresh.to(model.device)


def fitted_share(encoder: nn.Module, observations: Tensor, *, steps: int, seed: int) -> float:
    """1 - error / variance of random targets after `steps` steps; changes the encoder.

    observations (N, stack, H, W) uint8; targets (N, TARGETS) normal, head and order of the
    minibatches come from the seed alone, so that two encoders get the same task.
    """
    device = observations.device
    generator = torch_stream(seed, "plasticity", "targets")
    targets = torch.randn(len(observations), TARGETS, generator=generator)
    targets = (targets - targets.mean(0)).to(device)
    images = as_images(observations)
    encoder.requires_grad_(True).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "plasticity", "head"))
        head = nn.Linear(encoder(images[:1]).shape[1], TARGETS).to(device)
        optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=RATE)
        order = numpy_stream(seed, "plasticity", "order")
        for _ in range(steps):
            rows = torch.from_numpy(order.integers(len(images), size=min(BATCH, len(images))))
            loss = (head(encoder(images[rows])) - targets[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    encoder.eval()
    with torch.no_grad():
        parts = [head(encoder(chunk)) for chunk in images.split(BATCH)]
    error = (torch.cat(parts) - targets).square().mean()
    return 1.0 - (error / targets.square().mean()).item()
