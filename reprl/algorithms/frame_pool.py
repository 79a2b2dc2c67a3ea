"""Where the fast mode's frames lie: in numpy's memory, or on the device that trains.

rollout -> **pool of frames**, numbered by slots -> stacks of a minibatch. Both pools hold the same
bytes in the same slots; slot 0 is a black frame.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from reprl.transfer import on_device


class FramePool(Protocol):
    """Frames (P, H, W) uint8 by slot; pictures are (n_envs, stack, H, W), as `taken` gives them."""

    @property
    def frames(self) -> Any:
        """All of them, an array or a tensor."""

    @property
    def nbytes(self) -> int:
        """Bytes of the pool."""

    def taken(self, observations: np.ndarray, uploaded: Tensor | None) -> Any:
        """Pictures in the form this pool works on; `uploaded` are the same on the device."""

    def repeats(self, pictures: Any, slots: np.ndarray) -> np.ndarray:
        """Where pictures (n, k, H, W) are what lies in slots (n, k)."""

    def drawn(self, pictures: Any, env: np.ndarray, channel: np.ndarray) -> np.ndarray:
        """Which frames (m,) of the pictures are not black."""

    def write(self, first: int, pictures: Any, env: np.ndarray, channel: np.ndarray) -> None:
        """Put frames (m,) of the pictures into the slots from `first` on."""

    def grow(self, room: int) -> None:
        """Make it so large, keeping what it holds."""

    def keep(self, slots: np.ndarray) -> None:
        """Move slots (m,) to the front, in their order."""

    def stacks(self, slots: np.ndarray) -> Tensor:
        """Observations (B, stack, H, W) from slots (B, stack)."""


class HostFrames:
    """A pool in numpy's memory, where the CPU trains."""

    def __init__(self, height: int, width: int) -> None:
        self.frames = np.zeros((1, height, width), np.uint8)

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes

    def taken(self, observations: np.ndarray, uploaded: Tensor | None) -> np.ndarray:
        return observations

    def repeats(self, pictures: np.ndarray, slots: np.ndarray) -> np.ndarray:
        found: np.ndarray = (self.frames[slots] == pictures).all((2, 3))
        return found

    def drawn(self, pictures: np.ndarray, env: np.ndarray, channel: np.ndarray) -> np.ndarray:
        return np.array([pictures[e, c].any() for e, c in zip(env, channel, strict=True)], bool)

    def write(self, first: int, pictures: np.ndarray, env: np.ndarray, channel: np.ndarray) -> None:
        for slot, (e, c) in enumerate(zip(env, channel, strict=True), first):
            self.frames[slot] = pictures[e, c]

    def grow(self, room: int) -> None:
        pool = np.zeros((room, *self.frames.shape[1:]), np.uint8)
        pool[: len(self.frames)] = self.frames
        self.frames = pool

    def keep(self, slots: np.ndarray) -> None:
        self.frames[: len(slots)] = self.frames[slots]

    def stacks(self, slots: np.ndarray) -> Tensor:
        pool = torch.from_numpy(self.frames)
        rows = pool.index_select(0, torch.from_numpy(slots.reshape(-1).astype(np.int64)))
        return rows.view(*slots.shape, *pool.shape[1:])


class DeviceFrames:
    """A pool on a device: a picture that was uploaded for the rollout does not travel again."""

    def __init__(self, height: int, width: int, device: torch.device) -> None:
        self.device = device
        self.frames = torch.zeros((1, height, width), dtype=torch.uint8, device=device)

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes

    def taken(self, observations: np.ndarray, uploaded: Tensor | None) -> Tensor:
        return on_device(observations, self.device) if uploaded is None else uploaded

    def repeats(self, pictures: Tensor, slots: np.ndarray) -> np.ndarray:
        known = self.frames[self.index(slots)]  # (n, k, H, W)
        return (known == pictures).flatten(2).all(2).cpu().numpy()

    def drawn(self, pictures: Tensor, env: np.ndarray, channel: np.ndarray) -> np.ndarray:
        frames = pictures[self.index(env), self.index(channel)]  # (m, H, W)
        return (frames != 0).flatten(1).any(1).cpu().numpy()

    def write(self, first: int, pictures: Tensor, env: np.ndarray, channel: np.ndarray) -> None:
        frames = pictures[self.index(env), self.index(channel)]
        self.frames[first : first + len(env)] = frames

    def grow(self, room: int) -> None:
        pool = self.frames.new_zeros((room, *self.frames.shape[1:]))
        pool[: len(self.frames)] = self.frames
        self.frames = pool

    def keep(self, slots: np.ndarray) -> None:
        self.frames[: len(slots)] = self.frames[self.index(slots)]

    def stacks(self, slots: np.ndarray) -> Tensor:
        return self.stacks_at(self.index(slots))

    def stacks_at(self, slots: Tensor) -> Tensor:
        """Observations (B, stack, H, W) from slots (B, stack) that are on the device."""
        rows = self.frames.index_select(0, slots.reshape(-1))
        return rows.view(*slots.shape, *self.frames.shape[1:])

    def index(self, numbers: np.ndarray) -> Tensor:
        """Numbers as indices on the device."""
        return on_device(np.ascontiguousarray(numbers, np.int64), self.device)
