"""What a user may give to an environment besides plain numbers: rewards and actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from reprl.errors import UserError
from reprl.settings import REWARD, REWARDS
from reprl.validation import choice


def reward_mode(value: Any, training: bool, key: str = "reward") -> str | float:
    """How rewards are scaled: "clip", "raw" or a factor; None follows `training`."""
    if value is None:
        return "clip" if training else "raw"
    if isinstance(value, str):
        return choice(key, value, REWARDS)
    return float(REWARD.checked(key, value))


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
