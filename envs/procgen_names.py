"""Procgen's games by their names: which there are, their actions, levels and published scores.

`env=procgen env.game=coinrun` is the game `procgen/coinrun`. A game here is one level, which its
number decides: training has some of them, the variant `unseen` all others. Nothing of this needs
EnvPool, which plays them (procgen_levels.py), so that reports can be read without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reprl.envs.defaults import PROCGEN
from reprl.errors import UserError, unknown
from reprl.rng import stream_seed

SIZE = 64  # pixels of a picture's side
LEVELS = 2**31 - 1  # levels that there are, from 0 on
UNSEEN = "unseen"
FAMILY = "levels"  # of the variant `unseen`

ACTIONS = (
    *("DOWNLEFT", "LEFT", "UPLEFT", "DOWN", "NOOP", "UP", "DOWNRIGHT", "RIGHT", "UPRIGHT"),
    *("D", "A", "W", "S", "Q", "E"),  # keys whose meaning is the game's
)

# Scores of an agent that sees nothing and of a perfect one, (easy, hard), as Cobbe et al. (2020,
# arXiv 1912.01588) normalise with them: (score - least) / (most - least).
SCORES: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "bigfish": ((1.0, 40.0), (0.0, 40.0)),
    "bossfight": ((0.5, 13.0), (0.5, 13.0)),
    "caveflyer": ((3.5, 12.0), (2.0, 13.4)),
    "chaser": ((0.5, 13.0), (0.5, 14.2)),
    "climber": ((2.0, 12.6), (1.0, 12.6)),
    "coinrun": ((5.0, 10.0), (5.0, 10.0)),
    "dodgeball": ((1.5, 19.0), (1.5, 19.0)),
    "fruitbot": ((-1.5, 32.4), (-0.5, 27.2)),
    "heist": ((3.5, 10.0), (2.0, 10.0)),
    "jumper": ((3.0, 10.0), (1.0, 10.0)),
    "leaper": ((3.0, 10.0), (1.5, 10.0)),
    "maze": ((5.0, 10.0), (4.0, 10.0)),
    "miner": ((1.5, 13.0), (1.5, 20.0)),
    "ninja": ((3.5, 10.0), (2.0, 10.0)),
    "plunder": ((4.5, 30.0), (3.0, 30.0)),
    "starpilot": ((2.5, 64.0), (1.5, 35.0)),
}
# Distributions that a game has besides easy and hard.
OTHERS: Mapping[str, tuple[str, ...]] = {
    "caveflyer": ("memory", "exploration"),
    "chaser": ("extreme",),
    "climber": ("exploration",),
    "coinrun": ("exploration",),
    "dodgeball": ("extreme", "memory"),
    "heist": ("memory", "exploration"),
    "jumper": ("memory", "exploration"),
    "leaper": ("extreme", "exploration"),
    "maze": ("memory", "exploration"),
    "miner": ("memory",),
    "ninja": ("exploration",),
    "starpilot": ("extreme",),
}


def procgen_games() -> tuple[str, ...]:
    """Every game, by its whole name."""
    return tuple(f"{PROCGEN}{name}" for name in SCORES)


def written(name: str) -> str:
    """A game's own name as people write it: procgen/CoinRun, procgen/coin_run."""
    plain = re.sub(r"[\s_-]", "", name.removeprefix(PROCGEN)).lower()
    return f"{PROCGEN}{plain}" if plain in SCORES else name


def require_known(name: str) -> None:
    """Refuse a game that Procgen does not have."""
    if name.removeprefix(PROCGEN) not in SCORES:
        raise unknown("Procgen game", name.removeprefix(PROCGEN), SCORES)


def score_range(name: str, distribution: str) -> tuple[float, float] | None:
    """The constants that a game's scores are normalised with; only easy and hard have them."""
    ranges = SCORES.get(name.removeprefix(PROCGEN))
    if ranges is None or distribution not in ("easy", "hard"):
        return None
    return ranges[distribution == "hard"]


def check_levels(settings: Any, prefix: str = "") -> None:
    """Refuse levels that are not there; `settings` are an environment's or a configuration's."""
    name = settings.game.removeprefix(PROCGEN)
    there = ("easy", "hard", *OTHERS.get(name, ()))
    if settings.distribution not in there:
        raise UserError(
            f"{prefix}distribution={settings.distribution} is none of {name}'s: choose from "
            f"{', '.join(there)}."
        )
    if settings.start_level + settings.levels > LEVELS:
        raise UserError(
            f"{prefix}start_level={settings.start_level} with {prefix}levels={settings.levels} "
            f"goes beyond the last level, {LEVELS - 1}."
        )
    if not settings.levels and settings.start_level:
        raise UserError(
            f"{prefix}levels=0 is all levels, of which {prefix}start_level={settings.start_level} "
            f"is none: set {prefix}start_level=0."
        )


def require_levels(settings: Any, variant: Any, prefix: str = "") -> None:
    """Refuse unseen levels where training has them all."""
    name = getattr(variant, "name", variant)
    if not settings.levels and isinstance(name, str) and UNSEEN in name.split("+"):
        raise UserError(
            f"{prefix}levels=0 trains on every level, so that none is unseen: choose the variant "
            f"original, or {prefix}levels=200."
        )


def level_of(settings: Any, family: str, seed: int) -> int:
    """The level that a game's seed means: one of training's, or of all others."""
    drawn = stream_seed(seed, "procgen", "level")
    if family == FAMILY:
        level = drawn % (LEVELS - settings.levels)
        return int(level + settings.levels if level >= settings.start_level else level)
    return int(settings.start_level + drawn % (settings.levels or LEVELS))
