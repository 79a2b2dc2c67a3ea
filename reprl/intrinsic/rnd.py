"""Random network distillation (Burda et al. 2018): new is what a predictor cannot foresee.

A random network that is never trained says something about every observation; the predictor learns
to say the same of what was visited. Where it errs, the agent has hardly been.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reprl.encoders.initialisation import RELU_GAIN, orthogonal
from reprl.errors import UserError
from reprl.intrinsic.base import IntrinsicReward
from reprl.intrinsic.moments import RunningMoments
from reprl.settings import CLASSES
from reprl.validation import checker

CLIP = 5.0  # of normalised observations, in standard deviations
LEAST = 36  # pixels a side, below which nothing is left after three convolutions


class RND(IntrinsicReward):
    """The mean squared error of a predictor against a fixed random network.

    Of pictures both see the newest frame only: a stack would be new for its motion alone.
    """

    def __init__(
        self,
        *,
        coef: float = 0.5,
        value_coef: float = 0.5,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        width: int = 512,
        share: float = 0.25,
    ) -> None:
        super().__init__(coef=coef, value_coef=value_coef, gamma=gamma, gae_lambda=gae_lambda)
        check = checker(CLASSES["RND"], self)
        self.width: int = check("width", width)
        self.share: float = check("share", share)

    def setup(self, shape: tuple[int, ...], channels: int) -> None:
        self.channels = channels if len(shape) == 3 else None
        if len(shape) == 3:
            if min(shape[1:]) < LEAST:
                raise UserError(
                    f"intrinsic=rnd needs pictures of at least {LEAST}x{LEAST} pixels, got "
                    f"{shape[1]}x{shape[2]}: set env.size."
                )
            shape = (channels, *shape[1:])
        self.moments = RunningMoments(shape)
        self.target, inner = trunk(shape)
        self.target.append(nn.Linear(inner, self.width))
        self.predictor, _ = trunk(shape)
        # Deeper than what it predicts: it must not fail where it could learn.
        self.predictor.extend(
            [
                *(nn.Linear(inner, self.width), nn.ReLU()),
                *(nn.Linear(self.width, self.width), nn.ReLU()),
                nn.Linear(self.width, self.width),
            ]
        )
        for network in (self.target, self.predictor):
            orthogonal(network, RELU_GAIN)
        self.target.requires_grad_(False)

    def seen(self, observations: Tensor) -> Tensor:
        """Of pictures (B, stack x channels, H, W) the newest frame, of numbers all of them."""
        return observations if self.channels is None else observations[:, -self.channels :]

    def observe(self, observations: Tensor) -> None:
        self.moments.add(self.seen(observations))

    def normalised(self, observations: Tensor) -> Tensor:
        """Each pixel or number by its own running mean and deviation, clipped to +-5."""
        mean, std = self.moments.mean, self.moments.std
        return ((self.seen(observations) - mean) / std).clamp(-CLIP, CLIP).float()

    def errors(self, observations: Tensor) -> Tensor:
        """The predictor's mean squared error (B,) on each observation."""
        inputs = self.normalised(observations)
        with torch.no_grad():
            wanted = self.target(inputs)  # (B, width)
        found: Tensor = (self.predictor(inputs) - wanted).square().mean(1)
        return found

    @torch.no_grad()
    def rewards(self, observations: Tensor) -> Tensor:
        return self.errors(observations)

    def loss(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """On a share of the observations: with all of them, novelty is gone before it pays."""
        rows = math.ceil(self.share * len(observations))
        drawn = torch.randperm(len(observations), generator=generator)[:rows]
        return self.errors(observations[drawn.to(observations.device)]).mean()


def trunk(shape: tuple[int, ...]) -> tuple[nn.Sequential, int]:
    """Layers for a frame (channels, H, W) or numbers (D,), and how many features they give."""
    if len(shape) == 3:
        layers = nn.Sequential(
            *(nn.Conv2d(shape[0], 32, 8, stride=4), nn.LeakyReLU()),
            *(nn.Conv2d(32, 64, 4, stride=2), nn.LeakyReLU()),
            *(nn.Conv2d(64, 64, 3, stride=1), nn.LeakyReLU(), nn.Flatten()),
        )
    else:
        layers = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 64), nn.LeakyReLU())
    with torch.no_grad():
        return layers, int(layers(torch.zeros(1, *shape)).shape[1])
