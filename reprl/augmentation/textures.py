"""Textures: the picture shines through a procedural pattern from a bank that is made once.

Making such patterns for every minibatch costs seconds; the bank is a constant of the program, the
same in every process and run, and only which one, where and how strong is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from reprl.augmentation.base import PictureChange, integers, to_uint8, uniform
from reprl.rng import numpy_stream
from reprl.settings import CLASSES
from reprl.validation import checker

KINDS = ("plasma", "stripes", "checks", "blobs", "grain")
EACH = 24  # patterns of each kind in the bank


class Texture(PictureChange):
    """Lay a random pattern over all frames of a stack; `strength` is the pattern's share."""

    moves = False

    def __init__(
        self, *, strength: Sequence[float] = (0.1, 0.5), kind: str = "any", probability: float = 1.0
    ) -> None:
        super().__init__(probability=probability)
        check = checker(CLASSES["Texture"], self)
        self.strength = check("strength", strength)
        self.kind = check("kind", kind)

    def change(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = observations.shape
        patterns = bank(self.kind, height, width).to(observations.device)  # (N, H, W)
        chosen = integers(generator, (batch,), 0, len(patterns) - 1)
        down = integers(generator, (batch,), 0, height - 1)
        right = integers(generator, (batch,), 0, width - 1)
        low, high = self.strength
        share = uniform(generator, batch, low=low, high=high).to(observations.device)
        # every pattern goes on where it ends, so that it may begin anywhere
        rows = (torch.arange(height, device=down.device) + down[:, None]) % height
        columns = (torch.arange(width, device=right.device) + right[:, None]) % width
        place = (chosen[:, None, None], rows[:, :, None], columns[:, None, :])
        over = patterns[tuple(index.to(observations.device) for index in place)][:, None]
        pictures = observations.float()
        return to_uint8(pictures + share[:, None, None, None] * (over - pictures))


@cache
def bank(kind: str, height: int, width: int) -> Tensor:
    """Patterns (N, H, W) from 0 to 255 whose opposite edges meet, of one kind or of all."""
    kinds = KINDS if kind == "any" else (kind,)
    made = [_pattern(k, height, width, number) for k in kinds for number in range(EACH)]
    return torch.from_numpy(np.stack(made))


def _pattern(kind: str, height: int, width: int, number: int) -> np.ndarray:
    stream = numpy_stream(0, "textures", kind, number)
    y, x = np.mgrid[:height, :width].astype(float)
    y, x = y / height, x / width
    if kind in ("plasma", "blobs", "grain"):
        values = _clouds(stream, height, width, {"plasma": 2.0, "blobs": 2.5, "grain": 0.5}[kind])
        values = (values > np.median(values)).astype(float) if kind == "blobs" else values
    else:
        down, right = stream.integers(-8, 9, 2)
        down, right = (down, right) if down or right else (3, 3)  # waves over the picture
        first = np.sin(2 * np.pi * (down * y + right * x + stream.random()))
        values = first if stream.random() < 0.5 else np.sign(first)  # soft or hard edges
        if kind == "checks":
            values = values * np.sign(np.sin(2 * np.pi * (right * y - down * x)))
    low, high = values.min(), values.max()
    return (255 * (values - low) / max(high - low, 1e-9)).astype(np.float32)


def _clouds(stream: np.random.Generator, height: int, width: int, slope: float) -> np.ndarray:
    """Noise whose amplitude falls with frequency to the power of `slope`."""
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.hypot(down, right)
    frequency[0, 0] = np.inf  # no mean: levels are stretched anyway
    spectrum = np.fft.rfft2(stream.standard_normal((height, width))) / frequency**slope
    return np.fft.irfft2(spectrum, s=(height, width))
