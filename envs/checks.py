"""Numbers a user may give to an environment or to an effect, checked and made plain.

What leaves these functions is Python's own int or float, so that snapshots can hold it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reprl.errors import UserError

SEEDS = 2**63 - 1  # the largest seed of a game


def whole(key: str, value: Any, low: int, high: int, meaning: str = "") -> int:
    """A whole number between two limits, or the error that names them."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:
        why = f" ({meaning})" if meaning else ""
        raise UserError(f"{key}={value!r} must be a whole number from {low} to {high}{why}.")
    return int(value)


def number(key: str, value: Any, low: float, high: float) -> float:
    """A number between two limits, or the error that names them."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        raise UserError(f"{key}={value!r} must be a number from {low:g} to {high:g}.")
    return float(value)


def reward_mode(value: Any, training: bool) -> str | float:
    """How rewards are scaled: "clip", "raw" or a factor; None follows `training`."""
    if value is None:
        return "clip" if training else "raw"
    if not isinstance(value, str):
        return number("reward", value, 1e-6, 1e6)
    if value not in ("clip", "raw"):
        raise UserError(f"reward='{value}' must be clip, raw or a factor.")
    return value


def require_actions(actions: np.ndarray, count: int, meanings: list[str]) -> None:
    """One whole number for each environment, none beyond the game's actions."""
    if actions.shape != (count,) or actions.dtype.kind not in "iu":
        raise UserError(
            f"actions must be {count} whole numbers, one for each environment, "
            f"got {actions.dtype} of shape {actions.shape}."
        )
    if actions.max() >= len(meanings):
        raise UserError(
            f"action {actions.max()} does not exist: choose from 0 to "
            f"{len(meanings) - 1} ({', '.join(meanings)})."
        )
