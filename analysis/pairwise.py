"""Method against method: differences, probability of improvement, exact tests, and who is ranked.

Sits on top of statistics.py; the inputs are one number per trained run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from reprl.analysis.stats import Array, Estimate, estimate, mean
from reprl.rng import numpy_stream

LEVEL = 0.05
EXACT_LIMIT = 200_000  # label permutations enumerated in full: up to 10 against 10 runs
SAMPLED = 20_000


@dataclass(frozen=True)
class Difference:
    """Mean of the first method minus mean of the second, with its 95 % interval."""

    value: float
    low: float
    high: float
    n_first: int
    n_second: int
    paired: bool


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """The difference of two methods given {train_seed: score}.

    Paired by training seed when both have the same seeds, otherwise Welch's interval.
    """
    a = {s: v for s, v in first.items() if np.isfinite(v)}
    b = {s: v for s, v in second.items() if np.isfinite(v)}
    n, m = len(a), len(b)
    if not n or not m:
        return Difference(np.nan, np.nan, np.nan, n, m, False)
    if a.keys() == b.keys():
        result = estimate(mean, [a[s] - b[s] for s in sorted(a)])
        return Difference(result.value, result.low, result.high, n, m, True)
    x, y = np.array(list(a.values())), np.array(list(b.values()))
    value = float(x.mean() - y.mean())
    if n < 2 or m < 2:
        return Difference(value, np.nan, np.nan, n, m, False)
    if np.var(x) + np.var(y) == 0:
        return Difference(value, value, value, n, m, False)
    error, freedom = _welch(x, y)
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Difference(value, value - half, value + half, n, m, False)


def _welch(x: Array, y: Array) -> tuple[float, float]:
    """The standard error of a difference of means and its degrees of freedom.

    scipy's test computes the same, but warns where the values of one side are all equal.
    """
    a, b = (np.var(side, ddof=1) / len(side) for side in (x, y))
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    return float(np.sqrt(a + b)), float(freedom)


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


def permutation_test(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value for equal methods, over all ways to deal the runs to the two methods.

    Exact up to 200,000 permutations; beyond that 20,000 random ones and the observed one.
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    pooled = np.concatenate([a, b])
    observed = abs(a.mean() - b.mean())
    n, total = len(a), len(pooled)
    if comb(total, n) <= EXACT_LIMIT:
        index = np.array(list(combinations(range(total), n)))  # (P, n)
    else:
        rng = numpy_stream(0, "analysis", "permutation", total)
        index = np.argsort(rng.random((SAMPLED, total)), axis=1)[:, :n]
        index = np.concatenate([np.arange(n)[None], index])
    sums = pooled[index].sum(axis=1)  # (P,)
    differences = np.abs(sums / n - (pooled.sum() - sums) / (total - n))
    return float(np.mean(differences >= observed - 1e-9 * max(1.0, observed)))


def smallest_p(n: int, m: int) -> float:
    """The smallest p-value any data could give: with equal sizes the mirror image counts too."""
    return min(1.0, (2 if n == m else 1) / comb(n + m, n))


def seeds_needed(tests: int, level: float = LEVEL) -> int:
    """Runs per method from which `tests` Holm-corrected exact tests could reach the level."""
    n = 2
    while tests * smallest_p(n, n) > level:
        n += 1
    return n


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values in the order given."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = running
    return [float(x) for x in adjusted]


def exact_tests(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> tuple[list[float], str]:
    """Holm-adjusted p-values of the pairs and a sentence; NaN where seeds are too few."""
    if not pairs:
        return [], "Fewer than two methods can be compared, so nothing was tested."
    sizes = [(len(a), len(b)) for a, b in pairs]
    tested = can_be_tested(sizes)
    p_values = [float("nan")] * len(pairs)
    if not tested:
        n, m = min(sizes, key=min)
        return p_values, (
            f"No significance test: with {n} against {m} seeds no exact test of "
            f"{_comparisons(len(pairs))} can reach p < {LEVEL}, whatever the scores; "
            f"{seeds_needed(len(pairs))} seeds per method would allow one."
        )
    for i, p in zip(tested, holm([permutation_test(*pairs[i]) for i in tested]), strict=True):
        p_values[i] = p
    exact = all(comb(n + m, n) <= EXACT_LIMIT for n, m in (sizes[i] for i in tested))
    kind = "Exact permutation tests" if exact else "Permutation tests, the largest of them sampled,"
    sentence = f"{kind} over whole runs, {_comparisons(len(tested))}."
    if len(tested) < len(pairs):
        sentence += f" {len(pairs) - len(tested)} more have too few seeds to be tested."
    return p_values, sentence


def can_be_tested(sizes: Sequence[tuple[int, int]]) -> list[int]:
    """The pairs that can all reach the level after the correction: as many as possible, by their
    numbers of seeds alone, so pairs of equal numbers are tested together or not at all.
    """
    smallest = [smallest_p(n, m) if min(n, m) > 1 else 1.0 for n, m in sizes]
    for limit in sorted(set(smallest), reverse=True):
        chosen = [i for i, p in enumerate(smallest) if p <= limit]
        if len(chosen) * limit <= LEVEL:
            return chosen
    return []


def _comparisons(count: int) -> str:
    return "1 comparison" if count == 1 else f"{count} comparisons with Holm's correction"


def beats_random(scores: ArrayLike, random_scores: ArrayLike) -> bool | None:
    """Whether the games of one run are better than random games: one-sided Welch test at 5 %.

    None when either side has fewer than two games, so that nobody can say.
    """
    a, b = (x[np.isfinite(x)] for x in map(np.atleast_1d, map(np.asarray, (scores, random_scores))))
    if len(a) < 2 or len(b) < 2:
        return None
    if np.var(a) + np.var(b) == 0:
        return bool(a.mean() > b.mean())
    error, freedom = _welch(a, b)
    return bool(stats.t.sf((a.mean() - b.mean()) / error, freedom) < LEVEL)


def is_ranked(verdicts: Sequence[bool | None]) -> bool | None:
    """A method is ranked if more than half of its runs beat random play; None if nobody can say."""
    known = [v for v in verdicts if v is not None]
    return sum(known) * 2 > len(known) if known else None
