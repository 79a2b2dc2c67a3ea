"""Numbers with honest intervals: from the scores of trained runs to the estimates tables show.

Everything is a pure function on arrays whose first axis is the run. One trained run supplies the
scores on all variants, so the unit that is left out or resampled is always a whole run (row).
How the 95 % intervals are made:
  1 run         NaN: one run says nothing about the next one
  2 to 19 runs  Student t on jackknife pseudo-values (for a mean this is exactly the t interval)
  20 and more   BCa bootstrap over whole runs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from reprl.rng import numpy_stream

Array = NDArray[np.float64]
Statistic = Callable[[Array], float]

BOOTSTRAP_FROM = 20  # runs; below this BCa intervals are too short, t intervals hold their level
RESAMPLES = 5000
SMALLEST_RANGE = 1.0  # points between random and clean play below which retention means nothing


@dataclass(frozen=True)
class Estimate:
    """A value, its 95 % interval and the number of independent runs behind it."""

    value: float
    low: float
    high: float
    n_seeds: int
    interval: str = "none"  # none | t | bca


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
    score: ArrayLike, clean: ArrayLike, random_score: ArrayLike, random_clean: ArrayLike
) -> Array:
    """The share of what was learned on the clean game that survives on the variant.

    1 = nothing lost, 0 = as bad as random play; NaN where clean - random_clean < 1.
    """
    top = np.asarray(score, float) - np.asarray(random_score, float)
    bottom = np.asarray(clean, float) - np.asarray(random_clean, float)
    top, bottom = np.broadcast_arrays(top, bottom)
    out = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom >= SMALLEST_RANGE)
    return out


def mean(runs: Array) -> float:
    """The mean over all runs (and variants, if there is a second axis)."""
    return float(np.mean(runs))


def iqm(runs: Array) -> float:
    """The interquartile mean: a quarter of all values is cut at either end, as rliable does."""
    return float(stats.trim_mean(np.asarray(runs, float), 0.25, axis=None))


def estimate(statistic: Statistic, runs: ArrayLike, confidence: float = 0.95) -> Estimate:
    """A statistic of the runs (R,) or (R, V) with an interval over whole runs.

    Runs with a missing value are left out; `n_seeds` counts those that remain.
    """
    rows = np.asarray(runs, float)  # (R, ...)
    rows = rows[np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))]
    n = len(rows)
    if n == 0:
        return Estimate(np.nan, np.nan, np.nan, 0)
    value = float(statistic(rows))
    if n == 1 or not np.isfinite(value):
        return Estimate(value, np.nan, np.nan, n)
    left_out = np.array([statistic(np.delete(rows, i, axis=0)) for i in range(n)])  # (R,)
    if not np.isfinite(left_out).all():
        return Estimate(value, np.nan, np.nan, n)
    if n < BOOTSTRAP_FROM:
        low, high = _jackknife_t(value, left_out, confidence)
        return Estimate(value, low, high, n, "t")
    low, high = _bca(statistic, rows, value, left_out, confidence)
    return Estimate(value, low, high, n, "bca")


def _jackknife_t(value: float, left_out: Array, confidence: float) -> tuple[float, float]:
    n = len(left_out)
    pseudo = n * value - (n - 1) * left_out  # (R,)
    error = float(np.std(pseudo, ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    return value - half, value + half


def _bca(
    statistic: Statistic, rows: Array, value: float, left_out: Array, confidence: float
) -> tuple[float, float]:
    n = len(rows)
    index = numpy_stream(0, "analysis", "bootstrap", n).integers(n, size=(RESAMPLES, n))
    draws = np.array([statistic(rows[i]) for i in index])
    draws = draws[np.isfinite(draws)]
    below = (np.sum(draws < value) + 0.5 * np.sum(draws == value)) / max(len(draws), 1)
    if not 0 < below < 1:
        return np.nan, np.nan
    bias = stats.norm.ppf(below)
    spread = left_out.mean() - left_out  # (R,)
    scale = np.sum(spread**2) ** 1.5
    skew = np.sum(spread**3) / (6 * scale) if scale > 0 else 0.0
    z = bias + stats.norm.ppf([0.5 - confidence / 2, 0.5 + confidence / 2])
    low, high = np.quantile(draws, stats.norm.cdf(bias + z / (1 - skew * z)))
    return float(low), float(high)


def gap_estimate(clean: ArrayLike, score: ArrayLike, confidence: float = 0.95) -> Estimate:
    """The absolute gap over runs (R,), each run's clean and variant score kept together."""
    pairs = np.stack([np.asarray(clean, float), np.asarray(score, float)], axis=1)  # (R, 2)
    return estimate(lambda r: float(np.mean(r[:, 0] - r[:, 1])), pairs, confidence)


def retention_estimate(
    clean: ArrayLike,
    score: ArrayLike,
    random_clean: float,
    random_score: float,
    confidence: float = 0.95,
) -> Estimate:
    """Retention of the mean scores over runs (R,); the random scores count as known numbers.

    A ratio of means, not a mean of ratios: one run that barely learned must not dominate.
    """
    pairs = np.stack([np.asarray(clean, float), np.asarray(score, float)], axis=1)  # (R, 2)

    def ratio(rows: Array) -> float:
        return float(retention(rows[:, 1].mean(), rows[:, 0].mean(), random_score, random_clean))

    return estimate(ratio, pairs, confidence)
