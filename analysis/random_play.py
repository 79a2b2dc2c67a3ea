"""Random play as it was measured once for everybody: 500 games each, shipped with the package.

`python -m benchmarks.random_play` makes random_play.csv. A report takes these games where they are
more than the runs' own baselines have: 20 games of random Breakout are off by a third of a point.
A random player does not see pictures, so a variant that changes only the picture has the clean
game's scores.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

import pandas as pd

from reprl.envs.variation.base import PHYSICS
from reprl.game_seeds import shared_seeds
from reprl.naming import usual_severity
from reprl.schema import CLEAN, PARTS
from reprl.tables import read_text

RANDOM = "random"


@lru_cache(maxsize=1)
def measured() -> pd.DataFrame:
    """Every shipped game: game, variant, severity, sticky, eval_seed, episode, score, length."""
    path = resources.files("reprl.analysis") / "random_play.csv"
    with resources.as_file(path) as file:
        frame, _ = read_text(file)
    for column in frame.columns.difference(["game", "variant", "end"]):
        frame[column] = pd.to_numeric(frame[column], errors="coerce")
    return frame


def with_measured(episodes: pd.DataFrame, game: str) -> pd.DataFrame:
    """The table with shipped games of random play in place of fewer own ones.

    `episodes` is tidy and of one protocol; nothing is filled for games, stickiness or dynamics that
    were not measured.
    """
    if episodes.empty:
        return episodes
    sticky = float(episodes["sticky"].fillna(0.0).iloc[0])
    known = measured()
    known = known[(known["game"] == game) & (known["sticky"] == sticky)]
    own = episodes["method"] == RANDOM
    parts = []
    places = episodes.drop_duplicates(["variant", "severity"])
    for variant, family, severity in zip(
        places["variant"], places["family"], places["severity"], strict=True
    ):
        rows = _rows(known, str(variant), str(family), severity)
        here = (episodes["variant"] == variant) & _same(episodes["severity"], severity)
        if len(rows) <= int((own & here).sum()):
            continue
        episodes = episodes[~(own & here)]
        own = episodes["method"] == RANDOM
        parts.append(rows.assign(variant=variant, family=family, severity=severity))
    if not parts:
        return episodes
    shipped = pd.concat(parts, ignore_index=True).drop(columns="game")
    shipped = shipped.assign(run=RANDOM, method=RANDOM, train_seed=-1, step=0, deterministic=False)
    shipped["game_seed"] = shared_seeds(shipped).astype(str)
    for part in PARTS:
        shipped[part] = "none"
    whole = [episodes.reset_index(drop=True), shipped]
    return pd.concat(whole, ignore_index=True)


def _rows(known: pd.DataFrame, variant: str, family: str, severity: float) -> pd.DataFrame:
    if not set(family.split("+")) & set(PHYSICS):
        return known[known["variant"] == CLEAN]
    level = usual_severity(variant) if pd.isna(severity) else severity
    return known[(known["variant"] == variant) & (known["severity"] == level)]


def _same(levels: pd.Series, severity: float) -> pd.Series:
    return levels.isna() if pd.isna(severity) else levels == severity
