"""How numbers of a minibatch or a rollout that several processes share become one.

One process has all of it (`OneProcess`); in training over several ranks each has its share, and
`reprl.distributed.ranks` joins them. The update, its diagnostics and the losses ask only here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from torch import Tensor, nn


class Reduction(Protocol):
    """What the whole minibatch says, asked by a process that has a share of it.

    Every process asks the same questions in the same order.
    """

    @property
    def size(self) -> int:
        """The number of shares, all of as many rows."""

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (unbiased) of all shares of x (B,)."""

    def numbers(self, values: Tensor) -> Tensor:
        """Means (n,) over the shares of what each has averaged over its rows."""

    def total(self, values: Tensor) -> Tensor:
        """Sums (n,) over the shares, without gradient."""

    def rows(self, values: np.ndarray) -> np.ndarray:
        """The flat rows of all shares."""

    def gathered(self, x: Tensor) -> Tensor:
        """x (B, ...) of all shares, one below the other, without gradient."""

    def candidates(self, keys: Tensor) -> tuple[Tensor, int]:
        """The keys (..., B, D) of all shares and the place of this share's first among them.

        Shares may have different B; the gradient goes back to the share a key came from.
        """

    def gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average the gradients over the shares, in place."""


class OneProcess:
    """The only share there is."""

    size = 1

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(), x.std()

    def numbers(self, values: Tensor) -> Tensor:
        return values

    def total(self, values: Tensor) -> Tensor:
        return values

    def rows(self, values: np.ndarray) -> np.ndarray:
        return values.flatten()

    def gathered(self, x: Tensor) -> Tensor:
        return x

    def candidates(self, keys: Tensor) -> tuple[Tensor, int]:
        return keys, 0

    def gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        pass
