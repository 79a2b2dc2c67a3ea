"""Hard masks: a soft mask in [0, 1] made to open a cell or shut it, with the soft one's gradient.

mask -> **hard** -> floor -> what is covered. Forward the gate is 0 or 1, backward it is the soft
mask (straight-through), so a cell that is shut still learns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from reprl.errors import UserError, unknown
from reprl.rng import torch_stream
from reprl.settings import HARD, check_hard
from reprl.validation import checker


class Hard(nn.Module):
    """(B, K, h, w) in [0, 1] -> the same shape, 0 or 1.

    top_k: the `keep` share of each map's cells with the largest weights, none of weight 0.
    gumbel: in training each cell is open with its weight as the chance (straight-through
    Gumbel, `temperature` smoothing the gradient), otherwise where its weight is above a half.
    """

    stream: Tensor

    def __init__(self, *, by: str, keep: float = 0.1, temperature: float = 1.0) -> None:
        super().__init__()
        check = checker(HARD, "attention.hard")
        self.by: str = check("by", by)
        self.keep: float = check("keep", keep)
        self.temperature: float = check("temperature", temperature)
        if by == "gumbel":
            # A generator's state as a buffer: it travels with the parameters into a checkpoint.
            # initial_seed() is the run's seed, which SB3 has given torch before it builds a policy.
            stream = torch_stream(torch.initial_seed() % 2**63, "attention", "gumbel")
            self.register_buffer("stream", stream.get_state())

    def forward(self, mask: Tensor) -> Tensor:
        if self.by == "top_k" or not self.training:
            return _straight_through(self.opened(mask), mask)
        logits = torch.logit(mask, eps=1e-6) + self._noise(mask)
        return _straight_through((logits > 0).to(mask), torch.sigmoid(logits / self.temperature))

    def opened(self, mask: Tensor) -> Tensor:
        """The gate without chance, 0 or 1: what gets through as an agent is evaluated."""
        if self.by == "gumbel":
            return (mask > 0.5).to(mask)
        cells = mask.flatten(2)  # (B, K, h*w)
        count = max(1, round(self.keep * cells.shape[2]))
        best = cells.topk(count, dim=2).indices
        chosen = torch.zeros_like(cells).scatter(2, best, 1.0) * (cells > 0)
        return chosen.view_as(mask)

    @torch.compiler.disable  # a generator has no place in a compiled graph
    @torch.no_grad()
    def _noise(self, mask: Tensor) -> Tensor:
        """The difference of two Gumbel draws a cell, which is logistic, from the own stream."""
        generator = torch.Generator()
        generator.set_state(self.stream.cpu())
        draws = torch.rand(mask.shape, generator=generator)
        self.stream.copy_(generator.get_state())
        return torch.logit(draws, eps=1e-6).to(mask)


def build_hard(spec: str | Mapping[str, Any] | None) -> Hard | None:
    """From `attention.hard`: null, a kind, or a mapping with it and its setting."""
    if spec is None or spec == "none":
        return None
    given = {"by": spec} if isinstance(spec, str) else spec
    if not isinstance(given, Mapping) or "by" not in given:
        raise UserError(
            f"attention.hard={spec} must be null, {HARD['by']}, or a mapping such as "
            "{by: top_k, keep: 0.1}."
        )
    for key in given:
        if key not in HARD:
            raise unknown("key of attention.hard", str(key), HARD)
    check_hard(given)
    return Hard(**given)


def gate_of(network: nn.Module, attention: Tensor) -> Tensor | None:
    """What a network's hard mask lets through of its attention (B, K, h, w); None without one."""
    hard = next((m for m in network.modules() if isinstance(m, Hard)), None)
    return None if hard is None else hard.opened(attention)


def streams(network: nn.Module) -> list[Tensor]:
    """The states of all random streams inside a network, to be kept and put back."""
    return [m.stream for m in network.modules() if isinstance(m, Hard) and m.by == "gumbel"]


def _straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    return hard + (soft - soft.detach())  # in this order the sum is exactly 0 or 1
