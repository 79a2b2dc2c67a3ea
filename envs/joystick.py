"""ALE's continuous actions: radius, angle and fire of a stick -> what the console's switches do.

action (r, theta, fire) -> **switches and strength** -> emulator. As in ale-py's `continuous=True`
(CALE): beyond half its way a stick closes a switch, and a paddle turns as fast as it is pushed far.
"""

from __future__ import annotations

import numpy as np
from ale_py import Action
from gymnasium import spaces

from reprl.errors import UserError

THRESHOLD = 0.5


def joystick_space() -> spaces.Box:
    """Radius from 0 to 1, angle from -pi to pi, fire from 0 to 1."""
    low, high = np.array([0.0, -np.pi, 0.0]), np.array([1.0, np.pi, 1.0])
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), (3,), np.float32)


def joystick_actions(minimal: list[Action]) -> list[Action]:
    """Everything a stick can say, in the order that continuous games number it.

    A game's own actions come first, because the sequence that starts a game counts on them.
    """
    return [*minimal, *(a for a in map(Action, range(18)) if a not in minimal)]


class Joystick:
    """Turns sticks into the numbers of actions."""

    def __init__(self, minimal: list[str]) -> None:
        own = [getattr(Action, name) for name in minimal]
        order = [action.name for action in joystick_actions(own)]
        table = np.zeros((2, 3, 3), np.int64)  # fire, down-center-up, left-center-right
        for fire in range(2):
            for row, vertical in enumerate(("DOWN", "", "UP")):
                for column, horizontal in enumerate(("LEFT", "", "RIGHT")):
                    name = f"{vertical}{horizontal}{'FIRE' if fire else ''}" or "NOOP"
                    table[fire, row, column] = order.index(name)
        self._table = table

    def __call__(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (n,) and strengths (n,) of actions (n, 3); -1 where one is no number."""
        sticks = np.asarray(actions, np.float32)
        idle: np.ndarray = np.logical_not(np.isfinite(sticks).all(axis=1))
        radius, angle, fire = np.where(idle[:, None], 0, sticks).T
        x, y = radius * np.cos(angle), radius * np.sin(angle)  # (n,) float32
        column = 1 + (x > THRESHOLD).astype(np.int64) - (x < -THRESHOLD)
        row = 1 + (y > THRESHOLD).astype(np.int64) - (y < -THRESHOLD)
        numbers = self._table[(fire > THRESHOLD).astype(np.int64), row, column]
        return np.where(idle, -1, numbers), radius


def require_sticks(actions: np.ndarray, count: int) -> None:
    """Three numbers for each environment."""
    if actions.shape != (count, 3) or actions.dtype.kind != "f":
        raise UserError(
            f"actions must be {count} x 3 numbers (radius, angle, fire), one row for each "
            f"environment, got {actions.dtype} of shape {actions.shape}."
        )
