"""Ratings of a report's agents, and of a run's checkpoints: Elo from games they had in common.

episodes of all runs -> `reprl.evaluation.rating` -> **one row an agent**, and a curve for each run
of which several checkpoints were rated -> report and `reprl rate figure=FILE`. Agents that no
chain of common games connects have no rating in common: the largest group that has is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.palette import styles
from reprl.analysis.plots import rating_figure, save_figure
from reprl.analysis.tables import Column, Table
from reprl.errors import UserError
from reprl.evaluation.rating import (
    AGENT,
    GAME,
    connected,
    contradictory,
    rate,
    scores_by_game,
    tallies,
)

MOST = 60  # agents in one table; of more the last evaluated step of each run
TITLE = "Ratings: Elo from games in common"


def rating_table(episodes: pd.DataFrame) -> Table:
    """Elo with 95 % intervals; empty where no two agents have a game in common."""
    columns = [
        Column("method", "Method"),
        Column("run", "Run"),
        Column("step", "Step", "count"),
        Column("rating", "Elo", "count", "low", "high", help="400 points are ten wins to one"),
        Column("games", "Games", "count", help="with others, in pairs"),
        Column("wins", "Won", "count"),
        Column("losses", "Lost", "count"),
        Column("draws", "Drawn", "count"),
    ]
    needed = {*GAME, *AGENT, "episode_return"}
    if episodes.empty or not needed <= {*episodes.columns}:
        return Table("rating", TITLE, columns, pd.DataFrame())
    played = episodes[episodes["episode_return"].notna() & episodes["game_seed"].notna()]
    twice = contradictory(played)
    played = played[~twice]
    agents = played[list(AGENT)].drop_duplicates()
    if len(agents) > MOST:
        last = played.groupby(["method", "run"])["step"].transform("max")
        played = played[played["step"] == last]
        agents = played[list(AGENT)].drop_duplicates()
    if not 2 <= len(agents) <= MOST:
        return Table("rating", TITLE, columns, pd.DataFrame())
    table = scores_by_game(played)
    group = connected(tallies(table.to_numpy(float)))
    if len(group) < 2:
        return Table("rating", TITLE, columns, pd.DataFrame())
    kept = pd.DataFrame([table.columns[k] for k in group], columns=list(AGENT))
    frame = rate(played.merge(kept, on=list(AGENT)))
    for key in ("rating", "low", "high"):
        frame[key] = np.round(frame[key])
    left = len(agents) - len(group)
    note = (
        "Two agents are compared in the games that they began from the same seed on the same "
        "variant, all variants together; the higher score wins. Bradley and Terry's strengths on "
        "Elo's scale, mean 1500; intervals over the seeds that games began from, so they say "
        "nothing of other seeds of training. Steps of one run are agents of their own."
    )
    if twice.any():
        note += f" {int(twice.sum())} games with another score of the same agent are left out."
    if left:
        note += f" {left} agents that had no such game with these are left out."
    return Table("rating", TITLE, columns, frame, note)


def rating_curves(ratings: pd.DataFrame) -> list[dict[str, Any]]:
    """A line for each run of which several steps were rated: [step, Elo, low, high, games]."""
    if ratings.empty:
        return []
    curves = []
    both = ratings.groupby(["method", "run"])["deterministic"].transform("nunique") > 1
    own = ratings.assign(both=both).sort_values(["method", "run", "deterministic", "step"])
    for (method, run, greedy), part in own.groupby(["method", "run", "deterministic"], sort=False):
        if len(part) < 2:
            continue
        name = f"{run}, {'likeliest' if greedy else 'sampled'}" if part["both"].any() else str(run)
        points = part[["step", "rating", "low", "high", "games"]].to_numpy(float).tolist()
        curves.append({"method": str(method), "name": name, "points": points})
    return curves


def draw_ratings(ratings: pd.DataFrame, path: Path) -> None:
    """The curves as a picture of the kind that the file's ending says."""
    curves = rating_curves(ratings)
    if not curves:
        raise UserError(
            f"figure={path}: no run has two rated steps here, so there is no curve: play games of "
            "several with reprl evaluate DIR checkpoint=STEP games=shared."
        )
    methods = list(dict.fromkeys(curve["method"] for curve in curves))
    save_figure(lambda: rating_figure(curves, styles(methods)), path)
