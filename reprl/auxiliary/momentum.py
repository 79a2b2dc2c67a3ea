"""A slowly following copy of a module: the key side of the contrastive losses."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from torch import nn


class Momentum(nn.Module):
    """copy <- (1 - tau) copy + tau online on every `move`; it never takes a gradient."""

    def __init__(self, online: nn.Module, *, tau: float) -> None:
        super().__init__()
        self.tau = tau
        self.copy = copy.deepcopy(online).requires_grad_(False).eval()
        # A tuple keeps the online module out of this module's parameters and state.
        self._online = (online,)

    @torch.no_grad()
    def forward(self, *inputs: Any) -> Any:
        return self.copy(*inputs)

    @torch.no_grad()
    def move(self) -> None:
        (online,) = self._online
        for follower, leader in zip(self.copy.parameters(), online.parameters(), strict=True):
            follower.lerp_(leader, self.tau)
        for copied, original in zip(self.copy.buffers(), online.buffers(), strict=True):
            copied.copy_(original)

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode: a key must not depend on dropout."""
        return super().train(False)
