"""The auxiliary losses of one agent under the names of their terms, with each term's weight.

loss -> **terms** -> update: whatever a loss returns is checked here, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from reprl.auxiliary.base import AuxiliaryLoss, Batch
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.schedules import Schedule, schedule

# an update's own numbers, which share a log with the terms
RESERVED = ("policy", "value", "entropy", "total", "kl", "clip_fraction", "gradient", "rl")


class Terms:
    """Losses and what they compute; two losses may call their terms alike."""

    def __init__(self) -> None:
        self.losses = nn.ModuleDict()
        self._owners: dict[str, tuple[str, str]] = {}  # public name -> (loss, its term)
        self._schedules: dict[str, Schedule] = {}  # public name -> its weight over training
        self._begin: dict[str, int] = {}  # public name -> the step from which it counts

    def add(self, name: str, loss: AuxiliaryLoss) -> None:
        """Take a loss under a name, and its terms under theirs or, where taken, under both."""
        if not name.isidentifier():
            raise UserError(f"auxiliary name '{name}' must be a plain word such as 'contrastive'.")
        if hasattr(self.losses, name):
            raise UserError(f"auxiliary '{name}' needs another name: every torch module has that.")
        if not loss.weights:
            raise UserError(
                f"auxiliary '{name}' has no terms: its __init__ must call "
                "self.declare('a term', coef=...) for each that forward() returns."
            )
        self.losses[name] = loss
        for term in loss.weights:
            public = term if term not in self._owners else f"{name}_{term}"
            if public in self._owners or public in RESERVED:
                raise UserError(f"auxiliary '{name}': its term '{term}' needs another name.")
            self._owners[public] = (name, term)
            self._schedules[public] = schedule(loss.weights[term], name=f"weight of '{public}'")
            self._begin[public] = loss.begin.get(term, 0)

    def each(self) -> Iterator[AuxiliaryLoss]:
        """The losses in the order they were added."""
        for loss in self.losses.values():
            assert isinstance(loss, AuxiliaryLoss)
            yield loss

    @property
    def names(self) -> set[str]:
        """Every term's name in the log."""
        return set(self._owners)

    def weights(self, step: int, progress_remaining: float) -> dict[str, float]:
        """The weight of every term that has begun."""
        return {
            term: float(coefficient(progress_remaining))
            for term, coefficient in self._schedules.items()
            if step >= self._begin[term]
        }

    def compute(self, batch: Batch, wanted: set[str], encoder: Encoder) -> dict[str, Tensor]:
        """The wanted terms of a batch, each one number; anything else is refused by name."""
        terms: dict[str, Tensor] = {}
        for name, loss in self.losses.items():
            public = {term: p for p, (owner, term) in self._owners.items() if owner == name}
            begun = frozenset(term for term, p in public.items() if p in wanted)
            if not begun:
                continue
            found = loss(replace(batch, wanted=begun), encoder)
            if not isinstance(found, Mapping):
                raise UserError(
                    f"auxiliary '{name}' must return a dict of terms such as "
                    f"{{'{min(begun)}': loss}}, got {type(found).__name__}."
                )
            if not begun <= set(found) <= set(public):
                raise UserError(
                    f"auxiliary '{name}' computes the terms {sorted(found)}, but has weights "
                    f"for {sorted(public)}: each term needs one weight, each weight one term."
                )
            for term, value in found.items():
                number = _number(name, term, value, batch.observations.device)
                if term in begun:
                    terms[public[term]] = number
        return terms


def _number(name: str, term: str, value: Any, device: torch.device) -> Tensor:
    """A term as a scalar tensor; a loss with nothing to say may give a plain 0.0."""
    if isinstance(value, int | float):
        return torch.tensor(float(value), device=device)
    shape = value.shape if isinstance(value, Tensor) else None
    if shape != ():
        got = type(value).__name__ if shape is None else f"shape {tuple(shape)}"
        raise UserError(f"auxiliary '{name}': term '{term}' must be one number, got {got}.")
    return value  # type: ignore[no-any-return]
