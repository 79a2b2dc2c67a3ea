"""Environments of gymnasium by their ids: which there are, what they show, what they take.

`env.id=CartPole-v1` is the game `gymnasium/CartPole-v1`; this module knows neither torch nor SB3,
so that a wrong id is refused before anything heavy is imported.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled

from reprl import trust
from reprl.components import described
from reprl.envs import minigrid_pictures
from reprl.envs.defaults import GYMNASIUM
from reprl.envs.registration import register_envs
from reprl.errors import UserError, nearest

Space = spaces.Space[Any]


def require_known(name: str) -> None:
    """Refuse an id that gymnasium does not know; its module is imported only if it may be."""
    identity = name.removeprefix(GYMNASIUM)
    module, colon, plain = identity.rpartition(":")
    if colon:  # module:Id-v0, whose module registers it
        trust.require(module, identity)
    _require_known(identity, module, plain)


@cache
def _require_known(identity: str, module: str, plain: str) -> None:
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise UserError(
                f"env.id={identity}: {module} cannot be imported: {described(error)}"
            ) from error
    register_envs()  # ours, reprl/...
    minigrid_pictures.register(plain)
    with quiet():
        try:
            gymnasium.spec(plain)
        except Exception as error:
            raise UserError(
                f"env.id={identity} is no environment that gymnasium knows here.{_hint(plain)}"
            ) from error


def _hint(plain: str) -> str:
    if minigrid_pictures.is_missing(plain):
        return " MiniGrid's come with pip install 'reprl[minigrid]'."
    return nearest(plain, gymnasium.registry)


@contextmanager
def quiet() -> Iterator[None]:
    """Without gymnasium's remarks on older versions and on dtypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def make_single(name: str) -> gymnasium.Env[Any, Any]:
    """One environment, with gymnasium's own wrappers around it."""
    require_known(name)
    identity = name.removeprefix(GYMNASIUM)
    with quiet():
        try:
            env = gymnasium.make(identity.rpartition(":")[2])
        except Exception as error:
            if isinstance(error, DependencyNotInstalled) and "mujoco" in str(error).lower():
                raise UserError(
                    f"env.id={identity} is played by MuJoCo: pip install 'reprl[mujoco]'."
                ) from error
            raise UserError(f"env.id={identity} cannot be made: {described(error)}") from error
    return minigrid_pictures.pictured(env) if minigrid_pictures.is_grid(env) else env


@cache
def spaces_of(name: str) -> tuple[Space, Space]:
    """Observations as a network sees them, and actions; what cannot be learned from is refused."""
    from reprl.envs.observation import FrameStack  # which asks here

    env = make_single(name)
    try:
        seen, actions = env.observation_space, env.action_space
    finally:
        env.close()
    for what, space in (("observations", seen), ("actions", actions)):
        whole = isinstance(space, spaces.Discrete) and space.start == 0
        if not whole and not isinstance(space, spaces.Box):
            raise UserError(
                f"env.id={name.removeprefix(GYMNASIUM)} has {what} {space}: reprl takes one array, "
                "or one choice from 0 on; register an environment of your own that gives that."
            )
    if is_picture(seen):
        height, width, channels = seen.shape or ()
        shape = channels, height, width
        # colours are one frame, and no stack of gray ones
        seen = FrameStack(shape, channels) if channels > 1 else spaces.Box(0, 255, shape, np.uint8)
    return seen, actions


def is_picture(space: Space) -> bool:
    """Whether an environment's own observations are pictures (height, width, channels)."""
    shape = space.shape or ()
    channels_last = len(shape) == 3 and shape[-1] in (1, 3, 4)
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and channels_last


def sees_pictures(name: str) -> bool:
    """Whether an agent of this environment sees pictures, as encoders of pictures need them."""
    seen = spaces_of(name)[0]
    return len(seen.shape or ()) == 3 and seen.dtype == np.uint8


def action_names(name: str) -> list[str]:
    """Names of discrete actions, which gymnasium only numbers; none of continuous ones."""
    actions = spaces_of(name)[1]
    return [str(k) for k in range(int(actions.n))] if isinstance(actions, spaces.Discrete) else []
