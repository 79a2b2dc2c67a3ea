"""Ratings of agents from paired games: Bradley-Terry strengths on Elo's scale, with intervals.

evaluation/episodes.csv of several agents -> games that two of them played from the same seed ->
**ratings**. The higher score wins, equal scores are half a win each; no new game is played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from reprl.errors import UserError

START = "game_seed"  # its games on all variants share their luck
GAME = ("variant", "severity", "episode", "eval_seed", "sticky", START)  # one start, one world
AGENT = ("method", "run", "step", "deterministic")  # likeliest or sampled actions: two players
SCALE = 400 / np.log(10)  # Elo's: 400 points are ten wins to one
MIDDLE = 1500.0
PRIOR = 0.5  # of a drawn start of each pair that met: an agent that never lost has a rating too
CONFIDENCE = 0.95
EXACT = 1e-8  # of a log strength, for ratings and for the ends of their intervals
COLUMNS = (*AGENT, "rating", "low", "high", "games", "wins", "losses", "draws")


@dataclass(frozen=True)
class Strengths:
    """Log strengths (..., n) with mean 0 at the maximum of their likelihood; leading axes: sets."""

    won: np.ndarray  # (..., n, n): row over column, draws as halves, the prior's among them
    best: np.ndarray
    spread: np.ndarray  # (..., n): variances if all games were independent
    limit: np.ndarray  # (..., n): how far twice the log likelihood falls inside an interval


def strengths(won: np.ndarray) -> Strengths:
    """Bradley and Terry's strengths from wins by start (..., S, n, n), row over column.

    All games of one start are one observation: its luck is common to every variant and every pair
    of agents. So the likelihood is that of independent games, and how far it may fall is corrected
    by what starts differ (the sandwich of a composite likelihood). The prior counts as a start
    that ends in any order of the agents, which leaves two agents without draws on one variant
    the plain likelihood.
    """
    met = won + np.swapaxes(won, -1, -2)  # (..., S, n, n)
    usual = met.sum(-3) / np.maximum((met > 0).sum(-3), 1)  # games of a pair in one start
    wins = won.sum(-3) + PRIOR / 2 * usual
    n = wins.shape[-1]
    flat = wins.reshape(-1, n, n)
    free = np.ones(flat.shape[:2], bool)
    best = _climb(flat, np.zeros(free.shape), free).reshape(wins.shape[:-1])
    _, information, p = _slopes(wins, best)
    bread = _inverse(information)
    luck = won.sum(-1) - np.einsum("...sij,...ij->...si", met, p)  # (..., S, n)
    by_start = _variances(bread, np.swapaxes(luck, -1, -2) @ luck)
    variance = by_start + _variances(bread, PRIOR * _any_order(usual, p))
    starts = (met.sum(-1) > 0).sum(-2)  # (..., n): in which an agent met another
    with np.errstate(divide="ignore"):
        freedom = variance**2 / (by_start**2 / np.maximum(starts - 1, 1))  # Satterthwaite's
    quantile = stats.t.ppf(0.5 + CONFIDENCE / 2, np.maximum(freedom, 1.0))
    spread = np.einsum("...kk->...k", bread)
    return Strengths(wins, best, spread, quantile**2 * variance / spread)


def deviance(found: Strengths, truth: np.ndarray) -> np.ndarray:
    """How far twice the log likelihood falls (..., n) with one strength at its truth (..., n).

    The others go where they fit best; an interval holds the truth where this is within `limit`.
    """
    shape, n = found.best.shape, found.best.shape[-1]
    won, best = found.won.reshape(-1, n, n), found.best.reshape(-1, n)
    values, top = np.broadcast_to(truth, shape).reshape(-1, n), _likelihood(won, best)
    lost = np.empty(best.shape)
    for agent in range(n):
        at, _ = _held(won, best, np.full(len(best), agent), values[:, agent])
        lost[:, agent] = 2 * (top - _likelihood(won, at))
    return lost.reshape(shape)


def bounds(found: Strengths) -> tuple[np.ndarray, np.ndarray]:
    """Both ends (n,), (n,) of the profile likelihood's interval around each strength of one set."""
    n = len(found.best)
    agents, side = np.tile(np.arange(n), 2), np.repeat([-1.0, 1.0], n)
    won = np.broadcast_to(found.won, (2 * n, n, n))
    at, top = np.broadcast_to(found.best, (2 * n, n)), _likelihood(found.won, found.best)
    limit = found.limit[agents]
    values = found.best[agents] + side * np.sqrt(limit * found.spread[agents])
    for _ in range(100):  # Newton's method closes in on the root of a convex function
        at, slope = _held(won, at, agents, values)
        step = (2 * (top - _likelihood(won, at)) - limit) / (2 * slope)
        values = values + step
        if np.abs(step).max() < EXACT:
            break
    return values[:n], values[n:]


def _likelihood(won: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Log likelihood (...) of wins (..., n, n) under log strengths (..., n)."""
    chances = -np.logaddexp(0.0, at[..., None, :] - at[..., :, None])
    return np.asarray((won * chances).sum((-1, -2)))


def _slopes(won: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The likelihood's gradient (..., n), its information and the chances to win (..., n, n)."""
    p = 1 / (1 + np.exp(at[..., None, :] - at[..., :, None]))
    met = won + np.swapaxes(won, -1, -2)
    weight = met * p * (1 - p)
    return won.sum(-1) - (met * p).sum(-1), _laplacian(weight), p


def _laplacian(weights: np.ndarray) -> np.ndarray:
    """Sums of the rows on the diagonal, minus the symmetric weights (..., n, n)."""
    return weights.sum(-1)[..., None] * np.eye(weights.shape[-1]) - weights


def _inverse(information: np.ndarray) -> np.ndarray:
    """The covariance (..., n, n) of strengths around their mean, which alone the games tell."""
    n = information.shape[-1]
    size = np.einsum("...kk->...", information)[..., None, None] / n**2
    centre = np.eye(n) - 1 / n
    return np.asarray(centre @ np.linalg.inv(information + size) @ centre)


def _variances(bread: np.ndarray, between: np.ndarray) -> np.ndarray:
    return np.einsum("...ki,...ij,...kj->...k", bread, between, bread)


def _any_order(games: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Squared surprise (..., n, n) of a start with so many games of each pair, in random order.

    The chance to be above another rises with one's own place by as much as it falls with the
    other's: of the variance 1/4 of a pair, 1/12 is either place's and 1/12 the pair's alone.
    """
    places = _laplacian(games)
    unlike = (games * (0.5 - p)).sum(-1)
    chance = (places @ places + _laplacian(games**2)) / 12
    return np.asarray(chance + unlike[..., :, None] * unlike[..., None, :])


def _held(
    won: np.ndarray, at: np.ndarray, agents: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The best log strengths (B, n) with one of each row at a value, and how the maximum rises."""
    n, rows = at.shape[-1], np.arange(len(at))
    held = np.arange(n) == agents[:, None]
    others = np.where(held, 0.0, at).sum(-1) / (n - 1)
    away = values * n / (n - 1)  # of the mean of the others
    at = np.where(held, away[:, None], at - others[:, None])
    at = _climb(won, at, ~held)
    slope = _slopes(won, at)[0][rows, agents] * n / (n - 1)
    return at - at.mean(-1, keepdims=True), slope


def _climb(won: np.ndarray, at: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Newton's method from log strengths (B, n) to the maximum over those free, of equal mean."""
    at, left = at.copy(), np.arange(len(at))
    for _ in range(200):
        slope, information, _ = _slopes(won[left], at[left])
        moving = free[left].astype(float)
        both = moving[:, :, None] * moving[:, None, :]
        size = np.einsum("bkk->b", information)[:, None, None] / at.shape[-1]
        fixed = np.eye(at.shape[-1]) * (1 - moving)[:, None, :]
        sides = np.stack([slope * moving, moving], axis=-1)
        solved = np.linalg.solve(both * (information + size) + size * fixed, sides)
        step, level = solved[:, :, 0], solved[:, :, 1]
        step = step - (step.sum(-1) / level.sum(-1))[:, None] * level
        largest = np.abs(step).max(-1)
        at[left] += step / np.maximum(largest, 1.0)[:, None]
        left = left[largest > EXACT]
        if not len(left):
            break
    return at


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


def wins_by_start(scores: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Wins (S, n, n), row over column, of scores (games, n) that belong to `starts` (games,)."""
    n = scores.shape[1]
    won = np.zeros((int(starts.max()) + 1, n, n))
    for agent in range(n):
        np.add.at(won[:, agent], starts, wins_of(scores, agent))
    return won


def rate(episodes: pd.DataFrame) -> pd.DataFrame:
    """One row an agent, the best first; `low` to `high` is the 95 % interval of its rating.

    An agent is a method, a run, a step and how it acts (`deterministic` or sampled), so that the
    checkpoints of a run are rated as agents of their own.
    """
    _require_one_score(episodes)
    table = scores_by_game(episodes)
    agents: list[Any] = list(table.columns)
    scores = table.to_numpy(float)
    if len(agents) < 2:
        raise UserError(f"a rating compares agents, and here is {len(agents)}: evaluate another.")
    _require_connected(tallies(scores), agents)
    starts, _ = pd.factorize(table.index.get_level_values(START))
    found = strengths(wins_by_start(scores, starts))
    ratings, low, high = (MIDDLE + SCALE * values for values in (found.best, *bounds(found)))
    rows_out = []
    for k, agent in enumerate(agents):
        won, lost, even = _record(scores, k)
        numbers = (ratings[k], low[k], high[k], won + lost + even, won, lost, even)
        rows_out.append({**dict(zip(COLUMNS, (*agent, *numbers), strict=True))})
    frame = pd.DataFrame(rows_out, columns=list(COLUMNS))
    return frame.sort_values("rating", ascending=False, ignore_index=True)


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
