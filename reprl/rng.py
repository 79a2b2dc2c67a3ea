"""Named random streams: every random choice of reprl draws from one, none from global state."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def _key(names: tuple[str | int, ...]) -> list[int]:
    return [n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names]


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator that depends only on the seed and the stream's name."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_key(names)))


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for libraries that take an integer, derived like numpy_stream."""
    return int(numpy_stream(seed, *names).integers(2**63 - 1))


def torch_stream(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    """A torch generator that depends only on the seed and the stream's name."""
    import torch  # here, so that emulator workers start without it

    return torch.Generator(device=device).manual_seed(stream_seed(seed, *names))
