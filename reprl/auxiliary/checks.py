"""Range checks for the losses' settings: a wrong value is refused before anything is built."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from reprl.errors import UserError, unknown
from reprl.schedules import schedule

Coefficient = float | dict[str, Any]  # a number, or a spec for reprl.schedules


def number(
    loss: str, key: str, value: Any, *, low: float = -math.inf, high: float = math.inf
) -> float:
    """A finite number in [low, high], or a UserError that names the key."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or not low <= value <= high:
        raise UserError(
            f"auxiliary loss '{loss}': {key}={value!r} must be a number {_range(low, high)}."
        )
    return float(value)


def coefficient(loss: str, key: str, value: Any, *, factor: float = 1.0) -> Coefficient:
    """A number of at least 0 or a schedule of such, times the factor it is nested in."""
    if not isinstance(value, Mapping):
        return factor * number(loss, key, value, low=0.0)
    name = f"{key} of auxiliary loss '{loss}'"
    spec = schedule(value, name=name).plain()
    for end in {"start", "end"} & set(spec):
        spec[end] = factor * number(loss, f"{key}.{end}", spec[end], low=0.0)
    return spec


def whole(loss: str, key: str, value: Any, *, low: int) -> int:
    """A whole number of at least low, also written as 1e5, or a UserError that names the key."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise UserError(
            f"auxiliary loss '{loss}': {key}={value!r} must be a whole number of at least {low}."
        )
    return value


def one_of(loss: str, key: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed words, or a UserError with the nearest spelling."""
    if value not in (words := list(allowed)):
        raise unknown(f"{key} of auxiliary loss '{loss}'", str(value), words)
    return str(value)


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return f"of at least {low:g}" if math.isfinite(low) else "that is finite"
    return f"between {low:g} and {high:g}"
