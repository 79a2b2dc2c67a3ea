"""Methods over several games, whose points have no common scale: by one fixed normalisation.

runs and games of all folders, before a report keeps one game -> **one row a method and game, and
their mean**. A normalised score is (score - random) / (human - random), with the constants below
for every report, so that two reports agree; a game without them stands apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from reprl.analysis.tables import Column, Table
from reprl.naming import is_baseline, variant_label
from reprl.schema import CLEAN

if TYPE_CHECKING:
    from reprl.analysis.load import Run

MEAN = "mean over games"
# (random, human) as Wang et al. (2016, arXiv 1511.06581) and Atari 100k use them
REFERENCES: Mapping[str, tuple[float, float]] = {
    "alien": (227.8, 7127.7),
    "amidar": (5.8, 1719.5),
    "assault": (222.4, 742.0),
    "asterix": (210.0, 8503.3),
    "bank_heist": (14.2, 753.1),
    "battle_zone": (2360.0, 37187.5),
    "boxing": (0.1, 12.1),
    "breakout": (1.7, 30.5),
    "chopper_command": (811.0, 7387.8),
    "crazy_climber": (10780.5, 35829.4),
    "demon_attack": (152.1, 1971.0),
    "freeway": (0.0, 29.6),
    "frostbite": (65.2, 4334.7),
    "gopher": (257.6, 2412.5),
    "hero": (1027.0, 30826.4),
    "jamesbond": (29.0, 302.8),
    "kangaroo": (52.0, 3035.0),
    "krull": (1598.0, 2665.5),
    "kung_fu_master": (258.5, 22736.3),
    "ms_pacman": (307.3, 6951.6),
    "pong": (-20.7, 14.6),
    "private_eye": (24.9, 69571.3),
    "qbert": (163.9, 13455.0),
    "road_runner": (11.5, 7845.0),
    "seaquest": (68.4, 42054.7),
    "up_n_down": (533.4, 11693.2),
}
COLUMNS = ("method", "game", "n_seeds", "clean", "variants", "clean_share", "variants_share")


def over_games(runs: Sequence[Run], episodes: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """COLUMNS, one row a method and game, then the mean of each method; empty for one game.

    `variants` is the mean over all variants but the clean game, each counted once.
    """
    if len({run.game for run in runs}) < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    known = {run.name: run for run in runs}
    rows = []
    for frame in episodes:
        own = frame[~frame["method"].map(is_baseline) & frame["run"].isin(known)]
        for name, played in own.groupby("run"):
            run = known[str(name)]
            scores = pd.to_numeric(played["episode_return"], errors="coerce")
            levels = pd.to_numeric(played["severity"], errors="coerce")
            labels = list(map(variant_label, played["variant"], levels))
            means = scores.groupby(labels).mean()
            rows.append(
                {
                    "method": _without_game(run.method, run.game),
                    "game": run.game,
                    "seed": run.seed,
                    "clean": means.get(CLEAN, np.nan),
                    "variants": means.drop(CLEAN, errors="ignore").mean(),
                }
            )
    if not rows:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = pd.DataFrame(rows).groupby(["method", "game"], sort=False)
    found = groups[["clean", "variants"]].mean()
    found["n_seeds"] = groups["seed"].nunique()
    found = found.reset_index()
    for score in ("clean", "variants"):
        pairs = zip(found["game"], found[score], strict=True)
        found[f"{score}_share"] = [normalised(game, value) for game, value in pairs]
    shares = found.groupby("method", sort=False)[["clean_share", "variants_share"]].mean()
    means_ = shares.reset_index().assign(game=MEAN, clean=np.nan, variants=np.nan)
    means_["n_seeds"] = found.groupby("method", sort=False)["n_seeds"].min().to_numpy()
    return pd.concat([found, means_], ignore_index=True)[list(COLUMNS)]


def normalised(game: str, score: float) -> float:
    """(score - random) / (human - random), NaN where nobody has published these for a game."""
    if game not in REFERENCES:
        return float("nan")
    random, human = REFERENCES[game]
    return (score - random) / (human - random)


def games_table(frame: pd.DataFrame) -> Table:
    """The table of a report over several games."""
    share = "(score - random) / (human - random)"
    columns = [
        Column("method", "Method"),
        Column("game", "Game"),
        Column("n_seeds", "Seeds", "count"),
        Column("clean", "Clean", "score"),
        Column("variants", "Mean of the variants", "score"),
        Column("clean_share", "Clean, of a human", "two", help=share),
        Column("variants_share", "Variants, of a human", "two", help=share),
    ]
    note = (
        "Points of games have no common scale: shares are (score - random) / (human - random) with "
        "published constants, the same in every report; the mean is over the games that have them. "
        "Everything else on this page is of one game."
    )
    return Table("games", "Several games, by one normalisation", columns, frame, note)


def _without_game(method: str, game: str) -> str:
    """A method as it is called in every game: pong-ppo-nature is ppo-nature."""
    return method.removeprefix(f"{game.rpartition(':')[2].lower()}-")
