"""Small encoders whose every number is known, and batches made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.encoders.base import Encoder, EncoderOutput
from reprl.rng import torch_stream

SIZE = 8


class CellEncoder(Encoder):
    """One cell a pixel: map = relu(conv1x1(images)) * mask, features = linear(map)."""

    def __init__(self, space: gym.spaces.Box, *, mask: bool = True, features: int = 12) -> None:
        super().__init__(space, features)
        frames, height, width = space.shape
        self.trunk = nn.Conv2d(frames, 3, 1)
        self.mask = nn.Conv2d(frames, 1, 1) if mask else None
        self.linear = nn.Linear(3 * height * width, features)

    def encode(self, images: Tensor) -> EncoderOutput:
        cells = torch.relu(self.trunk(images))
        attention = None if self.mask is None else torch.sigmoid(self.mask(images))
        if attention is not None:
            cells = cells * attention
        return EncoderOutput(self.linear(cells.flatten(1)), cells, attention)

    def project(self, attention: Tensor, size: int | tuple[int, int]) -> Tensor:
        return attention


class FreeMaskEncoder(CellEncoder):
    """Its mask is one free number a cell, the same for every image."""

    def __init__(self, space: gym.spaces.Box, **settings: Any) -> None:
        super().__init__(space, mask=False, **settings)
        self.logits = nn.Parameter(torch.zeros(1, 1, *space.shape[1:]))

    def encode(self, images: Tensor) -> EncoderOutput:
        attention = torch.sigmoid(self.logits).expand(len(images), -1, -1, -1)
        cells = torch.relu(self.trunk(images)) * attention
        return EncoderOutput(self.linear(cells.flatten(1)), cells, attention)


class Noise(Augmentation):
    """A view that differs in every pixel a little."""

    def __init__(self, *, strength: int = 16) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        noise = torch.randint(0, self.strength, observations.shape, generator=generator)
        return View((observations.int() + noise).clamp(0, 255).to(torch.uint8))


class Same(Augmentation):
    """The view that changes nothing."""

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        return View(observations)


class World:
    """A policy with a small encoder, and batches for it."""

    def __init__(self, encoder: Any, size: int, frames: int, **settings: Any) -> None:
        torch.manual_seed(0)
        self.space = gym.spaces.Box(0, 255, (frames, size, size), np.uint8)
        self.actions = gym.spaces.Discrete(3)
        self.policy = ActorCriticPolicy(
            self.space,
            self.actions,
            lambda _: 1e-3,
            net_arch=[],
            features_extractor_class=encoder,
            features_extractor_kwargs=settings,
        )
        self.encoder: Any = self.policy.features_extractor
        self.generator = torch_stream(0, "auxiliary")

    def prepare(self, loss: AuxiliaryLoss, augmentation: Augmentation | None = None) -> Any:
        """Set a loss up as the algorithms do."""
        torch.manual_seed(1)
        loss.setup(self.context(augmentation or Same()))
        return loss

    def context(self, augmentation: Augmentation | None) -> Context:
        return Context(self.encoder, self.policy, self.space, self.actions, augmentation)

    def images(self, count: int) -> Tensor:
        return torch.randint(0, 256, (count, *self.space.shape), generator=self.generator).byte()

    def batch(
        self,
        observations: Tensor,
        *,
        rewards: Tensor | None = None,
        returns: Tensor | None = None,
        actions: Tensor | None = None,
        at: Callable[[int], tuple[Tensor, Tensor]] | None = None,
    ) -> Batch:
        count = len(observations)
        at = at or (lambda offset: (observations, torch.zeros(count, dtype=torch.bool)))
        played = torch.zeros(count, dtype=torch.long) if actions is None else actions
        output = self.encoder.encode(observations.float() / 255)
        return Batch(
            observations=observations,
            actions=played,
            rewards=torch.zeros(count) if rewards is None else rewards,
            returns=torch.zeros(count) if returns is None else returns,
            advantages=torch.zeros(count),
            episode_starts=torch.zeros(count, dtype=torch.bool),
            env_index=torch.zeros(count, dtype=torch.long),
            time_index=torch.arange(count),
            output=output,
            policy=self.policy,
            log_probs=self.policy.action_net(output.features).log_softmax(1),
            values=self.policy.value_net(output.features).flatten(),
            generator=self.generator,
            at=at,
            actions_at=lambda offset: (played, at(offset)[1]),
        )

    def reached(self, loss: AuxiliaryLoss, batch: Batch) -> set[str]:
        """Which parameters of encoder, policy heads and loss take a gradient that is not zero."""
        (term,) = loss(batch, self.encoder).values()
        modules = {"encoder": self.encoder, "loss": loss}
        modules |= {"actor": self.policy.action_net, "critic": self.policy.value_net}
        named = {
            f"{where}.{name}": parameter
            for where, module in modules.items()
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        gradients = torch.autograd.grad(
            term, list(named.values()), allow_unused=True, retain_graph=True
        )
        return {n for n, g in zip(named, gradients, strict=True) if g is not None and g.any()}

    def train(
        self, loss: AuxiliaryLoss, batches: Callable[[], Batch], steps: int, rate: float = 1e-2
    ) -> list[float]:
        """Optimise encoder and loss together; the term's value at each step."""
        learned = [*self.encoder.parameters(), *loss.parameters()]
        optimizer = torch.optim.Adam([p for p in learned if p.requires_grad], lr=rate)
        values = []
        for _ in range(steps):
            (term,) = loss(batches(), self.encoder).values()
            optimizer.zero_grad()
            term.backward()
            optimizer.step()
            loss.after_step()
            values.append(term.item())
        return values


@pytest.fixture
def world_of() -> type[World]:
    return World


@pytest.fixture
def masked() -> World:
    return World(CellEncoder, SIZE, 2)


@pytest.fixture
def unmasked() -> World:
    return World(CellEncoder, SIZE, 2, mask=False)


@pytest.fixture
def free_mask() -> World:
    return World(FreeMaskEncoder, SIZE, 1)


@pytest.fixture
def noise() -> Augmentation:
    return Noise()
