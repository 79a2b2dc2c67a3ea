"""The numbers a key accepts, by its name: one table for every part, the user's own included."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reprl.errors import UserError


@dataclass(frozen=True)
class Range:
    """The numbers a key accepts, and within them those nobody wonders about."""

    low: float
    high: float = math.inf
    usual: tuple[float, float] = (-math.inf, math.inf)
    open_low: bool = False
    whole: bool = False

    def __str__(self) -> str:
        above = f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"
        return above if self.high == math.inf else f"{above} and at most {self.high:g}"

    def contains(self, value: float) -> bool:
        return (value > self.low if self.open_low else value >= self.low) and value <= self.high


COEFFICIENT = Range(0, 1e3, usual=(0, 10))
FRACTION = Range(0, 1)
WORDS = {"resolution": "native"}  # keys that take a word instead of a number
STICKIEST = 0.99  # at 1 no action would ever reach the game

# By the last part of a key, in algo, encoder, attention, auxiliary and augmentation alike.
LEAVES: dict[str, Range] = {
    "learning_rate": Range(0, 1, usual=(1e-6, 1e-2), open_low=True),
    "weight_decay": Range(0, 1, usual=(0, 0.1)),
    "gamma": Range(0, 1, usual=(0.9, 0.9999)),
    "gae_lambda": Range(0, 1, usual=(0.8, 1)),
    "clip_range": Range(0, 1, usual=(0.02, 0.5), open_low=True),
    "clip_range_vf": Range(0, 1e6, open_low=True),
    "target_kl": Range(0, 10, usual=(0.001, 0.5), open_low=True),
    "ent_coef": Range(0, 10, usual=(0, 0.1)),
    "vf_coef": Range(0, 100, usual=(0, 2)),
    "max_grad_norm": Range(0, 1e6, usual=(0.05, 40), open_low=True),
    "rms_prop_eps": Range(0, 1, open_low=True),
    "instrument_every": Range(0, 1_000_000_000, whole=True),
    # from 1 on the contrastive loss did not converge, from 1e-4 on training crawled
    "repr_coef": Range(0, 1e3, usual=(0, 0.5)),
    "regularize_coef": Range(0, 1e3, usual=(0, 5e-5)),
    "n_steps": Range(1, 1_000_000, usual=(2, 4096), whole=True),
    "n_epochs": Range(1, 1000, usual=(1, 20), whole=True),
    "batch_size": Range(2, 10_000_000, usual=(32, 32_768), whole=True),
    "features_dim": Range(1, 65_536, whole=True),
    "tau": Range(0, 1, open_low=True),
    "temperature": Range(0, 100, open_low=True),
    "dropout": Range(0, 1, usual=(0, 0.7)),
    "floor": FRACTION,
    "p": FRACTION,
    "probability": FRACTION,
    "weight": COEFFICIENT,
    "begin": Range(0),
}


def number_of(key: str, value: Any, *, whole: bool = False) -> Any:
    """The value as a finite number, or the error that says what it is instead."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{key}={value} is not a number.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{key}={value} must be a finite number.")
    if whole and value != int(value):
        raise UserError(f"{key}={value} must be a whole number.")
    return int(value) if whole else value


def checked(key: str, value: Any) -> Any:
    """A part's value: numbers are finite and in the range their name implies, counts are whole."""
    if isinstance(value, Mapping) and value:
        return {name: checked(f"{key}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, float):
        number_of(key, value)
    allowed = range_of(key)[1]
    if allowed is None or value is None:
        return value
    number = number_of(key, value, whole=allowed.whole)
    if not allowed.contains(number):
        raise UserError(f"{key}={value} must be {allowed}.")
    return number


def range_of(key: str) -> tuple[str, Range | None]:
    path = key.split(".")
    # a schedule {start, end} has the range of the key it belongs to
    name = path[-2] if path[-1] in ("start", "end") and len(path) > 2 else path[-1]
    if path[-1] == "end" and name in LEAVES:
        return name, Range(0, LEAVES[name].high)
    if path[-1] == "warmup":
        return name, FRACTION
    return name, LEAVES.get(name, COEFFICIENT if name.endswith("coef") else None)
