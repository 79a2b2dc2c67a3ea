"""Whose games an agent plays in evaluation, and the random streams that determine each of them.

Every training seed has games of its own, the same for all methods of that seed: an interval over
runs then sees the luck of the games too. `shared` games are the same for all runs; players that
nobody trained play those, and so did every run before rows had the column `game_seed`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reprl.errors import unknown
from reprl.rng import stream_seed

GAMES = ("own", "shared")


def whose_games(games: str, train_seed: int | None) -> int | None:
    """The training seed whose games are played; None for the shared ones."""
    if games not in GAMES:
        raise unknown("value of games", games, GAMES)
    trained = train_seed is not None and train_seed >= 0
    return train_seed if games == "own" and trained else None


def stream(what: str, episode: int, train_seed: int | None = None) -> tuple[str | int, ...]:
    """The name of one of a game's random streams; `train_seed` None: a shared game."""
    own = () if train_seed is None else ("train_seed", train_seed)
    return ("evaluation", what, episode, *own)


def game_seed(seed: int, episode: int, train_seed: int | None = None) -> int:
    """What the emulator starts from: no-ops, sticky draws and the variant's own randomness."""
    return stream_seed(seed, *stream("game", episode, train_seed))


def shared_seeds(frame: pd.DataFrame) -> pd.Series:
    """The seeds shared games have, from `eval_seed` and `episode`; -1 where those are unknown."""
    if not {"eval_seed", "episode"} <= set(frame.columns):
        return pd.Series(-1, index=frame.index, dtype=object)
    pairs = list(zip(frame["eval_seed"], frame["episode"], strict=True))
    whole = {pair: (_whole(pair[0]), _whole(pair[1])) for pair in set(pairs)}
    seeds = {
        pair: -1 if seed is None or episode is None else game_seed(seed, episode)
        for pair, (seed, episode) in whole.items()
    }
    return pd.Series([seeds[pair] for pair in pairs], index=frame.index, dtype=object)


def _whole(value: Any) -> int | None:
    number = pd.to_numeric(value, errors="coerce")
    return int(number) if np.isfinite(number) and number == int(number) >= 0 else None
