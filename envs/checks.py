"""What a user may give to an environment: settings, rewards and actions, checked in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from reprl.envs.defaults import GYMNASIUM, LATER, PROCGEN
from reprl.envs.games import canonical
from reprl.envs.games import game as game_of
from reprl.envs.machine import EnvSettings
from reprl.envs.observation import check_observation
from reprl.envs.procgen_names import check_levels
from reprl.envs.shaping import checked_shaping
from reprl.errors import UserError
from reprl.settings import ENV, REWARD, REWARDS
from reprl.validation import checker, choice


def checked_settings(
    *, game: str, training: bool, reward: Any, shaping: Any = None, **numbers: Any
) -> EnvSettings:
    """An environment's settings: the game by its own name, each number within its limits."""
    game_of(game)  # refuses one that is not there
    name, check = canonical(game), checker(ENV)
    numbers = {key: check(key, value) for key, value in numbers.items()}
    found = EnvSettings(
        game=name,
        training=bool(training),
        reward=reward_mode(reward, training and not name.startswith((GYMNASIUM, PROCGEN))),
        shaping=checked_shaping(shaping, game_of(game), training=bool(training)),
        **numbers | {"sticky": float(numbers["sticky"])},
    )
    check_observation(found, game_of(game))
    if name.startswith(PROCGEN):
        check_levels(found)
    else:
        for key in ("levels", "start_level", "distribution"):
            if (value := getattr(found, key)) != LATER[key]:
                raise UserError(f"{key}={value} is Procgen's: {name} has no such thing.")
    return found


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
