"""Comparisons between methods against hand-worked cases and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from reprl.analysis.pairwise import (
    beats_random,
    difference,
    holm,
    is_ranked,
    probability_of_improvement,
    seeds_needed,
)
from reprl.analysis.stats import Sample


def sample(*values: float) -> Sample:
    return Sample(np.array(values))


def test_difference_is_welchs_whatever_the_seeds_are_called() -> None:
    got = difference(sample(10, 20), sample(4, 5, 9))
    want = stats.ttest_ind([10, 20], [4, 5, 9], equal_var=False)
    bounds = want.confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((bounds.low, bounds.high))
    assert got.p_value() == pytest.approx(want.pvalue)
    again = difference(sample(20, 10), sample(5, 9, 4))  # other names, the same runs
    assert (again.low, again.high) == pytest.approx((got.low, got.high))


@pytest.mark.filterwarnings("error")
def test_equal_values_on_one_side_are_no_reason_to_warn() -> None:
    got = difference(sample(1.6, 1.6, 1.6), sample(3.0, 4.0))
    error = np.sqrt(0.5 / 2)  # all of it is the second's, with one degree of freedom
    assert got.high - got.value == pytest.approx(stats.t.ppf(0.975, 1) * error)
    assert beats_random([9.0, 9.0, 9.0], [1.0, 2.0, 0.0, 1.0]) is True
    assert beats_random([1.0, 1.0, 1.0], [1.0, 2.0, 0.0, 1.0]) is False
    same = difference(sample(2, 2), sample(1, 1))
    assert (same.low, same.high, same.p_value()) == (1, 1, 0)


def shared(rng: np.random.Generator, runs: int, luck: np.ndarray, own: float) -> Sample:
    """A method of true mean 0 whose runs play the same games, each with its luck."""
    games = len(luck)
    table = rng.normal(0, 1, (runs, 1)) + luck + rng.normal(0, own, games)
    table = table + rng.normal(0, 2, (runs, games))
    return Sample(table.mean(axis=1), table, tuple(range(games)))


def test_a_difference_on_shared_games_covers_and_uses_that_they_are_the_same() -> None:
    """The games' luck cancels as far as both methods share it, and counts where they do not."""
    rng = np.random.default_rng(0)
    hits, widths, apart = 0, [], []
    for _ in range(800):
        luck = rng.normal(0, 3, 20)
        x, y = (shared(rng, 4, luck, own=2.0) for _ in range(2))
        got = difference(x, y)
        hits += got.low <= 0 <= got.high
        widths.append(got.high - got.low)
        other = difference(x, Sample(y.runs, y.games, tuple("abcdefghijklmnopqrst")))
        apart.append(other.high - other.low)
    assert 0.93 <= hits / 800 <= 0.97
    assert np.mean(widths) < 0.9 * np.mean(apart)


def test_seeds_needed_by_simulation() -> None:
    n = seeds_needed(2.0, 1.0, 2.0)
    assert n is not None
    rng = np.random.default_rng(0)
    powers = []
    for runs in (n - 1, n):
        a, b = rng.normal(2, 1, (4000, runs)), rng.normal(0, 2, (4000, runs))
        powers.append(np.mean(stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05))
    assert powers[0] < 0.82
    assert powers[1] > 0.78
    assert seeds_needed(0.0, 1.0, 1.0) is None
    assert seeds_needed(0.001, 1.0, 1.0) is None
    assert seeds_needed(1.0, 0.0, 0.0) == 2
    harder = seeds_needed(2.0, 1.0, 2.0, level=0.01)
    assert harder is not None
    assert harder > n


def test_beating_random_is_welchs_one_sided_test() -> None:
    rng = np.random.default_rng(0)
    for shift in np.linspace(0, 2, 21):
        a, b = rng.normal(shift, 2, 12), rng.normal(0, 1, 20)
        p = stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue
        assert beats_random(a, b) is bool(p < 0.05)


def test_one_seed_against_one_has_no_interval() -> None:
    got = difference(sample(10.0), sample(4.0))
    assert got.value == 6
    assert math.isnan(got.low)
    assert math.isnan(got.high)


def test_probability_of_improvement_by_hand() -> None:
    # Of six pairs: 3>1, 3>2, 3=3 (half), 0<1, 0<2, 0<3.
    assert probability_of_improvement([3, 0], [1, 2, 3]).value == pytest.approx(2.5 / 6)


def test_probability_of_improvement_never_claims_certainty() -> None:
    got = probability_of_improvement([10, 11, 12], [1, 2, 3])
    assert (got.value, got.high) == (1.0, 1.0)
    assert 0.3 < got.low < 0.8
    mirrored = probability_of_improvement([1, 2, 3], [10, 11, 12])
    assert mirrored.high == pytest.approx(1 - got.low)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_beats_random_rule() -> None:
    random = [0, 1, 2, 3, 2, 1, 0, 4]
    assert beats_random([12, 15, 9, 30], random) is True
    assert beats_random([1, 2, 0, 3], random) is False
    assert beats_random([0, 0, 0, 0], [0, 0]) is False
    assert beats_random([5], random) is None
    many = [*random] * 60  # as many as ship
    assert beats_random([60.0, 96.0, 300.0], many) is True  # Welch's p of these is 0.09
    assert stats.ttest_ind([60.0, 96.0, 300.0], many, equal_var=False).pvalue / 2 > 0.05
    assert beats_random([96.0, 300.0], many) is True
    assert beats_random([0.0, 1.0, 9.0], many) is False
    assert is_ranked([True, True, False]) is True
    assert is_ranked([True, False]) is False
    assert is_ranked([None, None]) is None
