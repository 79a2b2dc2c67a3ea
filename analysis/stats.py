"""Numbers with honest intervals: from the scores of trained runs to the estimates tables show.

Everything is a pure function on arrays whose first axis is the run: one trained run supplies the
scores on all variants, so the unit is always a whole run. docs/statistics.md has the simulation
behind each choice. How a 95 % interval of a mean is made:
  1 run           NaN: one run says nothing about the next one
  own games       Student t over the runs' means (R - 1 degrees of freedom)
  shared games    all runs played the same games, whose luck is common to them and invisible in the
                  spread of their means: variance by run + game - residual mean squares of the
                  two-way table, degrees of freedom by Satterthwaite
Other statistics: Student t on jackknife pseudo-values (of a mean exactly the t interval).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Array = NDArray[np.float64]
Statistic = Callable[[Array], float]

CONFIDENCE = 0.95
ENOUGH_SEEDS = 5  # below this the seeds themselves are shown and nobody speaks of 95 %


@dataclass(frozen=True)
class Estimate:
    """A value, its 95 % interval and the number of independent runs behind it."""

    value: float
    low: float
    high: float
    n_seeds: int
    interval: str = "none"  # none | t | two-way

    def cut(self, lowest: float) -> Estimate:
        """The interval without what is impossible: no mean of games is below the lowest score."""
        low, high = max(self.low, lowest), max(self.high, lowest)
        return Estimate(self.value, low, high, self.n_seeds, self.interval)


UNKNOWN = Estimate(np.nan, np.nan, np.nan, 0)


@dataclass(frozen=True)
class Component:
    """One summand of a variance (it may be subtracted) and its degrees of freedom."""

    value: float
    freedom: float


@dataclass(frozen=True)
class Sample:
    """One number per run (R,), and per shared game (R, J) where all runs played the same games."""

    runs: Array
    games: Array | None = None
    ids: tuple[Hashable, ...] = ()  # (J,) which games: differences of methods are of equal ones

    @property
    def value(self) -> float:
        """The mean over runs."""
        return float(np.mean(self.runs)) if len(self.runs) else float("nan")

    def minus(self, other: Sample, factor: float = 1.0) -> Sample:
        """Run by run (and game by game) self - factor * other, both of the same runs."""
        runs = self.runs - factor * other.runs
        if self.games is None or other.games is None or self.ids != other.ids:
            return Sample(runs)
        return Sample(runs, self.games - factor * other.games, self.ids)

    def over(self, number: float) -> Sample:
        """Everything divided by a number."""
        games = None if self.games is None else self.games / number
        return Sample(self.runs / number, games, self.ids)

    def components(self) -> list[Component]:
        """What the variance of the mean over runs is made of; empty with fewer than two runs."""
        count = len(self.runs)
        if count < 2:
            return []
        if self.games is None:
            return [Component(float(np.var(self.runs, ddof=1)) / count, count - 1)]
        run, game, residual = mean_squares(self.games)
        cells, games = self.games.size, self.games.shape[1]
        parts = [Component(run / cells, count - 1)]
        if game > residual:  # otherwise the games have nothing in common
            parts.append(Component(game / cells, games - 1))
            parts.append(Component(-residual / cells, (count - 1) * (games - 1)))
        return parts


def mean_squares(table: Array) -> tuple[float, float, float]:
    """Mean squares of runs, games and residual of a two-way table (R, J) without repetition."""
    runs, games = table.shape
    by_run, by_game = table.mean(axis=1), table.mean(axis=0)
    rest = table - by_run[:, None] - by_game[None, :] + table.mean()
    return (
        float(games * np.var(by_run, ddof=1)),
        float(runs * np.var(by_game, ddof=1)),
        float(np.sum(rest**2) / ((runs - 1) * (games - 1))),
    )


def variance_components(table: Array) -> tuple[float, float, float]:
    """Estimated variances (run, game, residual) of a table (R, J); they may be below 0."""
    run, game, residual = mean_squares(table)
    return (run - residual) / table.shape[1], (game - residual) / table.shape[0], residual


def satterthwaite(parts: Sequence[Component]) -> tuple[float, float]:
    """The sum of the components and its approximate degrees of freedom."""
    total = sum(part.value for part in parts)
    spread = sum(part.value**2 / part.freedom for part in parts)
    # A subtracted component can leave a fraction of one degree, and an interval of any length.
    return total, (max(1.0, total**2 / spread) if spread > 0 else np.inf)


def interval(
    value: float, parts: Sequence[Component], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The t interval around a value whose variance has these components."""
    if not parts or not np.isfinite(value):
        return np.nan, np.nan
    variance, freedom = satterthwaite(parts)
    if variance <= 0:
        return value, value
    half = float(stats.t.ppf(0.5 + confidence / 2, freedom) * np.sqrt(variance))
    return value - half, value + half


def mean_estimate(sample: Sample, confidence: float = CONFIDENCE) -> Estimate:
    """The mean over runs with its interval."""
    if not len(sample.runs):
        return UNKNOWN
    parts = sample.components()
    kind = "none" if not parts else "t" if sample.games is None else "two-way"
    low, high = interval(sample.value, parts, confidence)
    return Estimate(sample.value, low, high, len(sample.runs), kind)


def absolute_gap(clean: ArrayLike, score: ArrayLike) -> Array:
    """Points lost between the clean game and the variant."""
    return np.asarray(clean, float) - np.asarray(score, float)


def relative_gap(clean: ArrayLike, score: ArrayLike) -> Array:
    """The share of the clean score that is lost; NaN where the clean score is not positive."""
    clean_, score_ = np.broadcast_arrays(np.asarray(clean, float), np.asarray(score, float))
    out = np.full(clean_.shape, np.nan)
    np.divide(clean_ - score_, clean_, out=out, where=clean_ > 0)
    return out


def retention(
    score: ArrayLike,
    clean: ArrayLike,
    random_score: ArrayLike,
    random_clean: ArrayLike,
    scale: float = 1.0,
) -> Array:
    """The share of what was learned on the clean game that survives on the variant.

    1 = nothing lost, 0 = as bad as random play; NaN where less was learned than the game's `scale`.
    """
    top = np.asarray(score, float) - np.asarray(random_score, float)
    bottom = np.asarray(clean, float) - np.asarray(random_clean, float)
    top, bottom = np.broadcast_arrays(top, bottom)
    out = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom >= scale)
    return out


@dataclass(frozen=True)
class Reference:
    """Random play on what a score is of and on the clean game: the means, and the games behind."""

    score: float
    clean: float
    games: Array | None = None  # (K, 2) score and clean score of each game; None: taken as exact

    def components(self, kept: float, learned: float) -> list[Component]:
        """What its error adds to the variance of a retention `kept` of `learned` points."""
        if self.games is None or len(self.games) < 2:
            return []
        each = (kept * self.games[:, 1] - self.games[:, 0]) / learned  # (K,)
        return [Component(float(np.var(each, ddof=1)) / len(each), len(each) - 1)]


def retention_estimate(
    clean: Sample,
    score: Sample,
    random: Reference,
    confidence: float = CONFIDENCE,
    scale: float = 1.0,
) -> Estimate:
    """Retention of the mean scores over runs, with the error of the random scores.

    A ratio of means, not a mean of ratios: one run that barely learned must not dominate. Its
    interval is the delta method's: the ratio is linear in its means near their values.
    """
    kept = float(retention(score.value, clean.value, random.score, random.clean, scale))
    if not np.isfinite(kept):
        return Estimate(np.nan, np.nan, np.nan, len(score.runs))
    learned = clean.value - random.clean
    parts = score.minus(clean, kept).over(learned).components()
    parts += random.components(kept, learned) if parts else []
    low, high = interval(kept, parts, confidence)
    kind = "none" if not parts else "t" if score.games is None else "two-way"
    return Estimate(kept, low, high, len(score.runs), kind)


def mean(runs: Array) -> float:
    """The mean over all runs (and variants, if there is a second axis)."""
    return float(np.mean(runs))


def estimate(statistic: Statistic, runs: ArrayLike, confidence: float = CONFIDENCE) -> Estimate:
    """Any statistic of the runs (R,) or (R, V) with an interval over whole, independent runs.

    Runs with a missing value are left out; `n_seeds` counts those that remain.
    """
    rows = np.asarray(runs, float)  # (R, ...)
    rows = rows[np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))]
    n = len(rows)
    if n == 0:
        return UNKNOWN
    value = float(statistic(rows))
    if n == 1 or not np.isfinite(value):
        return Estimate(value, np.nan, np.nan, n)
    left_out = np.array([statistic(np.delete(rows, i, axis=0)) for i in range(n)])  # (R,)
    if not np.isfinite(left_out).all():
        return Estimate(value, np.nan, np.nan, n)
    pseudo = n * value - (n - 1) * left_out  # (R,)
    error = Component(float(np.var(pseudo, ddof=1)) / n, n - 1)
    return Estimate(value, *interval(value, [error], confidence), n, "t")
