"""Ratings of agents from paired games: Bradley-Terry strengths on Elo's scale, with intervals.

evaluation/episodes.csv of several agents -> games that two of them played from the same seed ->
**ratings**. The higher score wins, equal scores are half a win each; no new game is played.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reprl.errors import UserError
from reprl.rng import numpy_stream

GAME = (
    "variant",
    "severity",
    "episode",
    "eval_seed",
    "sticky",
    "game_seed",
)  # one start, one world
AGENT = ("method", "run", "step", "deterministic")  # likeliest or sampled actions: two players
SCALE = 400 / np.log(10)  # Elo's: 400 points are ten wins to one
MIDDLE = 1500.0
PRIOR = 0.5  # a drawn half game of each pair that met: an agent that never lost has a rating too
COLUMNS = (*AGENT, "rating", "low", "high", "games", "wins", "losses", "draws")


def strengths(wins: np.ndarray, *, steps: int = 2000, exact: float = 1e-9) -> np.ndarray:
    """Maximum likelihood ratings (n,) of wins (n, n), row over column, draws as halves to both.

    Minorisation-maximisation (Hunter 2004) on Elo's scale, with mean 1500.
    """
    played = wins + wins.T
    met = played > 0
    won = wins + PRIOR / 2 * met
    total = won + won.T
    p = np.ones(len(wins))
    for _ in range(steps):
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(met, total / (p[:, None] + p[None, :]), 0.0).sum(axis=1)
        new = np.where(shares > 0, won.sum(axis=1) / np.maximum(shares, 1e-300), p)
        new /= np.exp(np.log(new).mean())
        done = np.abs(np.log(new) - np.log(p)).max() < exact
        p = new
        if done:
            break
    return MIDDLE + SCALE * np.log(p)


def contradictory(episodes: pd.DataFrame) -> pd.Series:
    """Whether each row is of a game that one agent played to more than one score, (rows,) bool."""
    keyed = episodes.assign(severity=episodes["severity"].fillna(-1.0))
    same = keyed.groupby([*AGENT, *GAME], dropna=False)["episode_return"]
    found: pd.Series = same.transform("nunique") > 1
    return found


def scores_by_game(episodes: pd.DataFrame) -> pd.DataFrame:
    """Scores, one row a game (its start and its world) and one column an agent.

    A game that stands there twice with the same score is one.
    """
    keyed = episodes.assign(severity=episodes["severity"].fillna(-1.0))
    table: pd.DataFrame = keyed.pivot_table(
        index=list(GAME), columns=list(AGENT), values="episode_return", aggfunc="first"
    )
    return table


def wins_of(scores: np.ndarray, agent: int) -> np.ndarray:
    """Games (games, n) that one agent won of each other one, draws as halves, NaN as not played."""
    own = scores[:, [agent]]
    won = (own > scores) + 0.5 * (own == scores)
    won[:, agent] = 0.0
    return won


def tallies(scores: np.ndarray) -> np.ndarray:
    """Wins (n, n), row over column, of the scores (games, n) of which some are NaN."""
    return np.stack([wins_of(scores, agent).sum(0) for agent in range(scores.shape[1])])


def resampled(scores: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Wins (R, n, n) of R sets of the games, in each of which a game is so many `times` (R, G)."""
    agents = range(scores.shape[1])
    return np.stack([times @ wins_of(scores, agent) for agent in agents], axis=1)


def rate(episodes: pd.DataFrame, *, resamples: int = 200, seed: int = 0) -> pd.DataFrame:
    """One row an agent, the best first; `low` to `high` holds 95 % of resampled sets of games.

    An agent is a method, a run, a step and how it acts (`deterministic` or sampled), so that the
    checkpoints of a run are rated as agents of their own. Whole starts are resampled: agents that
    met in one game meet in its copies.
    """
    _require_one_score(episodes)
    table = scores_by_game(episodes)
    agents: list[Any] = list(table.columns)
    scores = table.to_numpy(float)
    if len(agents) < 2:
        raise UserError(f"a rating compares agents, and here is {len(agents)}: evaluate another.")
    wins = tallies(scores)
    _require_connected(wins, agents)
    ratings = strengths(wins)
    draw = numpy_stream(seed, "rating", "games")
    games = len(scores)
    times = np.stack(
        [np.bincount(draw.integers(games, size=games), minlength=games) for _ in range(resamples)]
    ).astype(float)
    drawn = [strengths(won, steps=200, exact=1e-6) for won in resampled(scores, times)]
    low, high = np.percentile(np.stack(drawn), [2.5, 97.5], axis=0)
    rows_out = []
    for k, agent in enumerate(agents):
        won, lost, even = _record(scores, k)
        numbers = (ratings[k], low[k], high[k], won + lost + even, won, lost, even)
        rows_out.append({**dict(zip(COLUMNS, (*agent, *numbers), strict=True))})
    found = pd.DataFrame(rows_out, columns=list(COLUMNS))
    return found.sort_values("rating", ascending=False, ignore_index=True)


def _record(scores: np.ndarray, agent: int) -> tuple[int, int, int]:
    """Games won, lost and drawn against all others."""
    others = np.delete(scores, agent, axis=1)
    own = scores[:, [agent]]
    return int((own > others).sum()), int((own < others).sum()), int((own == others).sum())


def connected(wins: np.ndarray) -> list[int]:
    """The agents of the largest group in which a chain of common games leads to each."""
    met = wins + wins.T > 0
    left, groups = set(range(len(wins))), []
    while left:
        reached = {min(left)}
        while new := {int(j) for i in reached for j in np.flatnonzero(met[i])} - reached:
            reached |= new
        groups.append(sorted(reached))
        left -= reached
    return max(groups, key=len)


def _require_one_score(episodes: pd.DataFrame) -> None:
    """Refuse two evaluations under one name: which of their scores counts, nobody can say."""
    for row in episodes[contradictory(episodes)].to_dict("records"):
        raise UserError(
            f"{row['method']} ({row['run']} at step {row['step']}) has two scores for one game "
            f"({row['variant']}, episode {row['episode']}): these are different evaluations, so "
            "rate their folders apart."
        )


def _require_connected(wins: np.ndarray, agents: list[tuple[Any, ...]]) -> None:
    """Refuse agents that no chain of common games connects: their ratings would mean nothing."""
    together = connected(wins)
    for k, (method, run, step, _) in enumerate(agents):
        if k not in together:
            raise UserError(
                f"{method} ({run} at step {step}) has no game in common with the others: evaluate "
                "all of them with games=shared."
            )
