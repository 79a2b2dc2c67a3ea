"""A bandit over a loss's choices: which of them paid, and which has not been tried enough (UCB).

Its memory is in buffers, so that a checkpoint carries it and a resumed run chooses on alike.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Bandit(nn.Module):
    """argmax of Q + exploration sqrt(log t / N): Q the mean of an arm's last `window` scores.

    N is how often the arm was chosen and t how often any was; each is tried once first.
    """

    counts: Tensor  # (arms,) int64
    scores: Tensor  # (arms, window) float64: the newest last, NaN where there are fewer
    chosen: Tensor  # () int64: -1 before the first choice

    def __init__(self, arms: int, *, exploration: float, window: int) -> None:
        super().__init__()
        self.exploration = exploration
        self.register_buffer("counts", torch.zeros(arms, dtype=torch.int64))
        nothing = torch.full((arms, window), math.nan, dtype=torch.float64)
        self.register_buffer("scores", nothing)
        self.register_buffer("chosen", torch.tensor(-1))

    def credit(self, score: float) -> None:
        """Say what came of the arm that was chosen last."""
        if (arm := int(self.chosen)) < 0:
            return
        row = self.scores[arm].roll(-1)
        row[-1] = score
        self.scores[arm] = row

    def choose(self) -> int:
        """The next arm; the first of those that are equally good."""
        arm = int(self.bounds().argmax())
        self.counts[arm] += 1
        self.chosen.fill_(arm)
        return arm

    def bounds(self) -> Tensor:
        """The upper confidence bounds (arms,), infinite for arms that were never tried."""
        tried = self.counts.clamp(min=1)
        total = math.log(max(int(self.counts.sum()), 1))
        bound = self.scores.nanmean(1).nan_to_num(0.0)
        bound = bound + self.exploration * (total / tried).sqrt()
        return torch.where(self.counts == 0, math.inf, bound)
