"""Running mean and deviation of everything seen so far, as buffers that checkpoints carry."""

from __future__ import annotations

import torch
from torch import Tensor, nn

EPSILON = 1e-8  # of the variance: what has never changed is not divided by 0


class RunningMoments(nn.Module):
    """Mean and variance over all rows added, by the parallel rule of Chan et al."""

    count: Tensor  # ()
    mean: Tensor  # shape
    squares: Tensor  # shape: sum of squared distances from the mean

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(shape, dtype=torch.float64))

    @torch.no_grad()
    def add(self, rows: Tensor) -> None:
        """Take rows (N, *shape) in."""
        rows = rows.double()
        many = len(rows)
        mean = rows.mean(0)
        away = mean - self.mean
        both = self.count + many
        self.squares += (rows - mean).square().sum(0) + away.square() * self.count * many / both
        self.mean += away * many / both
        self.count += many

    @property
    def std(self) -> Tensor:
        """The standard deviation of the population; 1 before anything was seen."""
        if not self.count:
            return torch.ones_like(self.squares)
        return (self.squares / self.count + EPSILON).sqrt()
