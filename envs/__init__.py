"""ALE games and their variants as an SB3 VecEnv with ground truth and exact state.

Names load on first use, so that worker processes start without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprl.envs.games import Game, Memory, Roles, Scripted, game
    from reprl.envs.games.breakout import ScriptedAgent
    from reprl.envs.objects import Box, Grid, Objects
    from reprl.envs.processes import WorkerError
    from reprl.envs.single import GameEnv
    from reprl.envs.variation import Effect, Part, Variant, find, variants
    from reprl.envs.variation.suites import suite, suites
    from reprl.envs.vector import AtariVecEnv, make_vec_env
    from reprl.envs.wrapper import VariantWrapper

_HOME = {
    "Box": "objects",
    "Grid": "objects",
    "Objects": "objects",
    "WorkerError": "processes",
    "Game": "games",
    "Memory": "games",
    "Roles": "games",
    "Scripted": "games",
    "game": "games",
    "ScriptedAgent": "games.breakout",
    "AtariVecEnv": "vector",
    "make_vec_env": "vector",
    "GameEnv": "single",
    "VariantWrapper": "wrapper",
}
_VARIANTS = ("Effect", "Part", "Variant", "find", "suite", "suites", "variants")

__all__ = [
    "AtariVecEnv",
    "Box",
    "Effect",
    "Game",
    "GameEnv",
    "Grid",
    "Memory",
    "Objects",
    "Part",
    "Roles",
    "Scripted",
    "ScriptedAgent",
    "Variant",
    "VariantWrapper",
    "WorkerError",
    "find",
    "game",
    "make_vec_env",
    "suite",
    "suites",
    "variants",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'reprl.envs' has no attribute '{name}'")
    home = "variation" if name in _VARIANTS else _HOME[name]
    return getattr(import_module(f"reprl.envs.{home}"), name)


def __dir__() -> list[str]:
    return __all__
