"""MiniGrid's worlds as pictures: the agent's own view, 7 x 7 tiles of 12 pixels, 84 x 84 x 3.

`env.id=MiniGrid-Empty-5x5-v0` -> `gymnasium_ids` -> **pictured** -> `GymVecEnv`. What MiniGrid
itself shows is a mapping of codes, a direction and a text; encoders take pictures.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import gymnasium
from gymnasium import spaces

IDS = ("MiniGrid-", "BabyAI-")  # how MiniGrid's own ids begin
TILE = 12  # pixels: seven of them are 84


def register(identity: str) -> None:
    """Make MiniGrid's ids known to gymnasium, where one of them is asked for."""
    if identity.startswith(IDS) and not is_missing(identity):
        importlib.import_module("minigrid")


def is_missing(identity: str) -> bool:
    """Whether an id is one of MiniGrid's, which is not installed."""
    return identity.startswith(IDS) and importlib.util.find_spec("minigrid") is None


def is_grid(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment is one of MiniGrid's, or derived from them, as MiniGrid shows it."""
    if not isinstance(env.observation_space, spaces.Dict) or "minigrid" not in sys.modules:
        return False
    from minigrid.minigrid_env import MiniGridEnv

    return isinstance(env.unwrapped, MiniGridEnv)


def pictured(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The same world seen as a picture; its text is left out."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper

    return ImgObsWrapper(RGBImgPartialObsWrapper(env, tile_size=TILE))
