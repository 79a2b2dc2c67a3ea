"""Methods over several games, whose points have no common scale: by one fixed normalisation.

runs and games of all folders, before a report keeps one game -> **one row a method and game, and
their mean**. A normalised score of an ALE game is (score - random) / (human - random), one of
Procgen's (score - least) / (most - least), with published constants for every report, so that two
reports agree; a game without them stands apart, and each benchmark has a mean of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from reprl.analysis.tables import Column, Table
from reprl.envs.defaults import LATER, PROCGEN
from reprl.envs.procgen_names import score_range
from reprl.naming import game_word, is_baseline, variant_label
from reprl.schema import CLEAN

if TYPE_CHECKING:
    from reprl.analysis.load import Run

EASY = LATER["distribution"]
MEAN = "mean over games"
MEANS = {False: "mean over ALE games", True: "mean over Procgen games"}  # where both are there
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
                    "method": run.method.removeprefix(f"{game_word(run.config.get('env'))}-"),
                    "game": _called(run),
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
    benchmarks = found["game"].str.startswith(PROCGEN)
    parts = [found]
    for procgen, part in found.groupby(benchmarks):
        methods = part.groupby("method", sort=False)
        shares = methods[["clean_share", "variants_share"]].mean()
        shares["n_seeds"] = methods["n_seeds"].min()
        named = MEANS[bool(procgen)] if benchmarks.nunique() > 1 else MEAN
        parts.append(shares.reset_index().assign(game=named, clean=np.nan, variants=np.nan))
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]


def _called(run: Run) -> str:
    """A run's game, with the distribution of Procgen's levels where it is not the usual one."""
    env = run.config.get("env")
    kind = env.get("distribution", EASY) if isinstance(env, Mapping) else EASY
    return run.game if kind == EASY else f"{run.game} ({kind})"


def normalised(game: str, score: float) -> float:
    """The share between two published scores, NaN where nobody has published these for a game.

    `game` is as the table calls it: `procgen/coinrun (hard)`.
    """
    if game.startswith(PROCGEN):
        name, _, kind = game.partition(" ")
        known = score_range(name, kind.strip("()") or EASY)
    else:
        known = REFERENCES.get(game)
    if known is None:
        return float("nan")
    least, most = known
    return (score - least) / (most - least)


def games_table(frame: pd.DataFrame) -> Table:
    """The table of a report over several games."""
    share = "(score - random) / (human - random); Procgen: (score - least) / (most - least)"
    columns = [
        Column("method", "Method"),
        Column("game", "Game"),
        Column("n_seeds", "Seeds", "count"),
        Column("clean", "Clean", "score"),
        Column("variants", "Mean of the variants", "score"),
        Column("clean_share", "Clean, normalised", "two", help=share),
        Column("variants_share", "Variants, normalised", "two", help=share),
    ]
    note = (
        "Points of games have no common scale: normalised scores are (score - random) / (human - "
        "random) in ALE's games and (score - least) / (most - least) in Procgen's (Cobbe et al.), "
        "with published constants, the same in every report; a mean is over the games that have "
        "them. Of Procgen's games clean means the levels of training, and the variant is unseen "
        "levels: the difference is the generalization gap. Everything else on this page is of one "
        "game."
    )
    return Table("games", "Several games, by one normalisation", columns, frame, note)
