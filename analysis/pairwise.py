"""Method against method: differences over runs, how often one beats the other, and who is ranked.

Sits on top of stats.py. Always Welch over whole runs: two runs of one seed number share nothing
that could be paired, and which of them stand beside each other is an accident of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from reprl.analysis.stats import (
    CONFIDENCE,
    Component,
    Estimate,
    Sample,
    interval,
    mean_squares,
    satterthwaite,
)

LEVEL = 0.05
FEW_GAMES = 5  # below this many a run's games are compared with random play by rank
MOST_SEEDS = 1000  # a comparison that needs more runs a method will not be decided


@dataclass(frozen=True)
class Difference:
    """Mean of the first method minus mean of the second, with its 95 % interval."""

    value: float
    low: float
    high: float
    n_first: int
    n_second: int
    parts: tuple[Component, ...] = ()  # of its variance

    def p_value(self, margin: float = 0.0) -> float:
        """Two-sided p of the difference being `margin`; NaN without an interval."""
        if not self.parts or not np.isfinite(self.value):
            return float("nan")
        variance, freedom = satterthwaite(self.parts)
        if variance <= 0:
            return float(self.value == margin)
        return float(2 * stats.t.sf(abs(self.value - margin) / np.sqrt(variance), freedom))

    def at(self, confidence: float) -> tuple[float, float]:
        """The interval of another confidence."""
        return interval(self.value, self.parts, confidence)


def difference(first: Sample, second: Sample, confidence: float = CONFIDENCE) -> Difference:
    """The difference of two methods' means: Welch's interval over their runs.

    Where all runs of both played the same games, a game's luck counts once, in the difference.
    """
    n, m = len(first.runs), len(second.runs)
    value = first.value - second.value
    if n < 2 or m < 2:
        return Difference(value, np.nan, np.nan, n, m)
    if first.games is not None and second.games is not None and first.ids == second.ids:
        parts = _of_shared_games(first.games, second.games)
    else:
        parts = first.components() + second.components()
    return Difference(value, *interval(value, parts, confidence), n, m, tuple(parts))


def _of_shared_games(first: np.ndarray, second: np.ndarray) -> list[Component]:
    """Variance of the difference of two tables (R, J), (S, J) of the same J games."""
    parts, rest = [], []
    games = first.shape[1]
    for table in (first, second):
        run, _, residual = mean_squares(table)
        freedom = len(table) - 1
        parts.append(Component(run / table.size, freedom))
        rest.append(Component(-residual / table.size, freedom * (games - 1)))
    each = first.mean(axis=0) - second.mean(axis=0)  # (J,)
    common = Component(float(np.var(each, ddof=1)) / games, games - 1)
    if common.value + sum(part.value for part in rest) > 0:  # else no game's luck is common
        parts += [common, *rest]
    return parts


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Estimate:
    """How often a run of the first method beats one of the second; ties count one half.

    The interval is Newcombe's (2006, method 5): it keeps a width even when every run of one method
    beats every run of the other, where a bootstrap would claim certainty. NaN with one run.
    """
    a, b = (x[np.isfinite(x)] for x in (np.asarray(first, float), np.asarray(second, float)))
    n, m = len(a), len(b)
    if not n or not m:
        return Estimate(np.nan, np.nan, np.nan, min(n, m))
    wins = np.sign(a[:, None] - b[None, :])  # (n, m)
    value = float((wins.mean() + 1) / 2)
    if min(n, m) < 2:
        return Estimate(value, np.nan, np.nan, min(n, m))
    z2 = stats.norm.ppf(0.975) ** 2
    extra = (n + m) / 2 - 1

    def excess(p: float) -> float:
        variance = p * (1 - p) * (1 + extra * ((1 - p) / (2 - p) + p / (1 + p))) / (n * m)
        return float((p - value) ** 2 - z2 * variance)

    low = 0.0 if value == 0 else float(optimize.brentq(excess, 1e-12, value - 1e-9))
    high = 1.0 if value == 1 else float(optimize.brentq(excess, value + 1e-9, 1 - 1e-12))
    return Estimate(value, low, high, min(n, m), "newcombe")


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values in the order given."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = running
    return [float(x) for x in adjusted]


def seeds_needed(
    effect: float, first: float, second: float, *, level: float = LEVEL, power: float = 0.8
) -> int | None:
    """Runs of each method from which Welch's test finds a difference with this power.

    `first` and `second` are the standard deviations between runs; None where no number up to 1000
    would do. Power is that of the noncentral t distribution.
    """
    if not np.isfinite([effect, first, second]).all() or effect == 0:
        return None
    for n in range(2, MOST_SEEDS + 1):
        a, b = first**2 / n, second**2 / n
        if a + b == 0:
            return 2
        freedom = (a + b) ** 2 * (n - 1) / (a**2 + b**2)
        centre = abs(effect) / np.sqrt(a + b)
        critical = stats.t.ppf(1 - level / 2, freedom)
        if stats.nct.sf(critical, freedom, centre) >= power:
            return n
    return None


def beats_random(scores: ArrayLike, random_scores: ArrayLike) -> bool | None:
    """Whether the games of one run are better than random games: one-sided Welch test at 5 %.

    Fewer than five games have no spread to go by (three of 152 points were not enough): they are
    held against random play by their ranks (Mann-Whitney). None when either side has fewer than two
    games, so that nobody can say.
    """
    a, b = (x[np.isfinite(x)] for x in map(np.atleast_1d, map(np.asarray, (scores, random_scores))))
    if len(a) < 2 or len(b) < 2:
        return None
    parts = Sample(a.astype(float)).components() + Sample(b.astype(float)).components()
    error, freedom = satterthwaite(parts)
    if error <= 0:
        return bool(a.mean() > b.mean())
    if len(a) < FEW_GAMES:
        return bool(stats.mannwhitneyu(a, b, alternative="greater").pvalue < LEVEL)
    return bool(stats.t.sf((a.mean() - b.mean()) / np.sqrt(error), freedom) < LEVEL)


def is_ranked(verdicts: Sequence[bool | None]) -> bool | None:
    """A method is ranked if more than half of its runs beat random play; None if nobody can say."""
    known = [v for v in verdicts if v is not None]
    return sum(known) * 2 > len(known) if known else None
