"""Which samples of a minibatch follow each other in one game, for policies with a memory.

rollout -> minibatch -> **sequences**, side by side and padded to one length -> memory -> samples.
Everything but the memory sees the samples alone: padding exists only between `pad` and `unpad`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reprl.augmentation.base import Augmentation, View

States = tuple[Tensor, Tensor]  # hidden and cell, (layers, sequences, width) each


@dataclass(frozen=True)
class Sequences:
    """B samples as sequences of consecutive steps, the longest of which has `length` of them."""

    rows: Tensor  # (B,) int64: sequence * length + step
    length: int
    starts: Tensor  # (count * length,) float32: 1 where a game begins, 0 in padding
    actor: States  # before the first step of each sequence, as in the rollout
    critic: States
    at_once: bool = False  # through the memory in one call, not step by step as sb3-contrib does

    @property
    def count(self) -> int:
        return len(self.starts) // self.length

    @property
    def owner(self) -> Tensor:
        """Which sequence each sample is of, (B,)."""
        return self.rows // self.length

    def pad(self, samples: Tensor) -> Tensor:
        """Samples (B, ...) at their places among zeros, (count * length, ...)."""
        empty = samples.new_zeros(len(self.starts), *samples.shape[1:])
        return empty.index_copy(0, self.rows, samples)

    def unpad(self, padded: Tensor) -> Tensor:
        """The samples (B, ...) of (count * length, ...)."""
        return padded[self.rows]

    def view(
        self, augmentation: Augmentation, observations: Tensor, generator: torch.Generator
    ) -> View:
        """Augmented samples (B, stack, H, W), with one draw for all steps of a sequence.

        A draw for each step would let still things jump, and a memory would take that for motion.
        Every step is given the same draws, so that no picture depends on another step's.
        """
        shape = (self.count, self.length, *observations.shape[1:])
        steps = self.pad(observations).view(shape)
        changed, mirrored = torch.empty_like(steps), None
        before = generator.get_state()
        for step in range(self.length):
            generator.set_state(before)
            view = augmentation(steps[:, step], generator)
            changed[:, step], mirrored = view.observations, view.mirrored
        seen = self.unpad(changed.flatten(0, 1))
        return View(seen, None if mirrored is None else mirrored[self.owner])


def one_step(starts: Tensor, *, actor: States, critic: States) -> Sequences:
    """Samples (B,) as sequences of one step each, with the states before them."""
    rows = torch.arange(len(starts), device=starts.device)
    return Sequences(rows=rows, length=1, starts=starts, actor=actor, critic=critic)


def places(begins: np.ndarray) -> tuple[np.ndarray, int]:
    """Padded places (B,) of samples in order, and the length; `begins` (B,) is True at a first one.

    The first sample begins a sequence in any case.
    """
    first = begins.copy()
    first[0] = True
    sequence = np.cumsum(first) - 1  # (B,)
    begin = np.flatnonzero(first)
    step = np.arange(len(first)) - begin[sequence]
    length = int(step.max()) + 1
    return sequence * length + step, length
