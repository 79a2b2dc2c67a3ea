"""Statistics against hand-worked arrays, scipy, and simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from reprl.analysis.stats import (
    Component,
    Reference,
    Sample,
    absolute_gap,
    estimate,
    interval,
    mean,
    mean_estimate,
    mean_squares,
    relative_gap,
    retention,
    retention_estimate,
    satterthwaite,
    variance_components,
)


def test_gaps_by_hand() -> None:
    assert absolute_gap([20, 10], [5, 12]).tolist() == [15, -2]
    np.testing.assert_allclose(relative_gap([20, 10, 0], [5, 12, 3]), [0.75, -0.2, np.nan])


def test_retention_by_hand_and_its_guard() -> None:
    # (6-2)/(21-1) = 0.2; no loss = 1; random play = 0; 1.9 - 1 < 1 point learned -> NaN; exactly 1
    got = retention([6, 21, 2, 1.5, 1.5], [21, 21, 21, 1.9, 2.0], [2, 1, 2, 1, 1], 1.0)
    np.testing.assert_allclose(got, [0.2, 1.0, 0.0, np.nan, 0.5])


def test_mean_of_few_runs_has_the_t_interval() -> None:
    runs = np.array([5.0, 8.0, 12.0])
    got = estimate(mean, runs)
    low, high = stats.t.interval(0.95, 2, runs.mean(), stats.sem(runs))
    assert (got.value, got.low, got.high) == pytest.approx((25 / 3, low, high))
    assert (got.n_seeds, got.interval) == (3, "t")


def test_many_runs_have_the_same_kind_of_interval() -> None:
    runs = np.random.default_rng(3).gamma(2.0, 3.0, size=40)
    got = estimate(mean, runs)
    want = stats.t.interval(0.95, 39, runs.mean(), stats.sem(runs))
    assert (got.low, got.high, got.interval) == (*map(pytest.approx, want), "t")


def test_the_two_way_table_by_hand() -> None:
    # runs 1 2 3 / 3 4 8: means 2 and 5, games 2 3 5.5, grand 3.5
    table = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 8.0]])
    # run: 3 * (1.5^2 + 1.5^2) / 1; game: 2 * (1.5^2 + 0.5^2 + 2^2) / 2
    # residuals 0.5 0.5 -1 and their mirror: 2 * 1.5 / 2
    assert mean_squares(table) == pytest.approx((13.5, 6.5, 1.5))
    assert variance_components(table) == pytest.approx((12 / 3, 5 / 2, 1.5))
    got = mean_estimate(Sample(table.mean(axis=1), table))
    variance = (13.5 + 6.5 - 1.5) / 6
    freedom = (13.5 + 6.5 - 1.5) ** 2 / (13.5**2 / 1 + 6.5**2 / 2 + 1.5**2 / 2)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    assert (got.value, got.low, got.high) == pytest.approx((3.5, 3.5 - half, 3.5 + half))
    assert got.interval == "two-way"


def test_games_with_nothing_in_common_leave_the_t_interval() -> None:
    table = np.array([[1.0, 5.0], [5.0, 1.0], [2.0, 6.0]])  # games differ less than by chance
    got = mean_estimate(Sample(table.mean(axis=1), table))
    want = mean_estimate(Sample(table.mean(axis=1)))
    assert (got.low, got.high) == pytest.approx((want.low, want.high))


def test_a_stuck_policy_is_not_certain() -> None:
    """Every run plays the same 17 games of 0 and 3 of 11 points: that mean is 20 games' luck."""
    games = np.tile([11.0] * 3 + [0.0] * 17, (3, 1))
    got = mean_estimate(Sample(games.mean(axis=1), games))
    low, high = stats.t.interval(0.95, 19, 1.65, stats.sem(games[0]))
    assert (got.low, got.high) == pytest.approx((low, high))
    assert mean_estimate(Sample(games.mean(axis=1))).high == pytest.approx(
        1.65
    )  # what the spread of runs says
    assert got.cut(0.0).low == 0.0


def test_satterthwaite_is_welch_for_two_means() -> None:
    x, y = np.array([1.0, 4, 2, 8]), np.array([3.0, 3.5, 9])
    want = stats.ttest_ind(x, y, equal_var=False)
    parts = [Component(np.var(v, ddof=1) / len(v), len(v) - 1) for v in (x, y)]
    assert satterthwaite(parts)[1] == pytest.approx(want.df)
    bounds = want.confidence_interval(0.95)
    got = interval(x.mean() - y.mean(), parts)
    assert got == pytest.approx((bounds.low, bounds.high))


def test_one_seed_gives_no_interval_and_none_gives_nothing() -> None:
    one = estimate(mean, [[3.0, 5.0]])
    assert one.value == 4.0
    assert one.n_seeds == 1
    assert np.isnan([one.low, one.high]).all()
    empty = estimate(mean, [np.nan])
    assert empty.n_seeds == 0
    assert np.isnan(empty.value)


def test_runs_with_missing_scores_are_left_out_whole() -> None:
    got = estimate(mean, [[1.0, 3.0], [np.nan, 100.0], [3.0, 5.0]])
    assert (got.value, got.n_seeds) == (3.0, 2)


def test_gap_keeps_a_runs_two_scores_together() -> None:
    # Scores vary wildly between runs, the gap does not: pairing must see an interval of width 0.
    clean, score = Sample(np.array([10.0, 50, 90])), Sample(np.array([4.0, 44, 84]))
    got = mean_estimate(clean.minus(score))
    assert (got.value, got.low, got.high) == pytest.approx((6, 6, 6))


def test_retention_estimate_is_a_ratio_of_means() -> None:
    clean, score = Sample(np.array([21.0, 11.0])), Sample(np.array([11.0, 2.0]))
    got = retention_estimate(clean, score, Reference(1.0, 1.0))
    assert got.value == pytest.approx((6.5 - 1) / (16 - 1))
    assert got.low < got.value < got.high
    few = Sample(np.array([1.5, 1.6]))
    assert np.isnan(retention_estimate(few, few, Reference(1.0, 1.0)).value)


def test_the_error_of_random_play_is_in_the_interval() -> None:
    """Runs without any spread: what is left is the random player's, by the delta method."""
    clean, score = Sample(np.array([11.0, 11.0, 11.0])), Sample(np.array([6.0, 6.0, 6.0]))
    random = np.random.default_rng(0).poisson(1.0, size=200).astype(float)
    pairs = np.column_stack([random, random])  # a picture variant: the same games
    got = retention_estimate(clean, score, Reference(random.mean(), random.mean(), pairs))
    rate = (6 - random.mean()) / (11 - random.mean())
    # d kept / d random = (score - clean) / (clean - random)^2
    slope = (6 - 11) / (11 - random.mean()) ** 2
    half = stats.t.ppf(0.975, 199) * abs(slope) * stats.sem(random)
    assert (got.low, got.high) == pytest.approx((rate - half, rate + half))


def test_the_retention_interval_covers_with_few_random_games() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(1000):
        clean, score = rng.normal(20, 2, 5), rng.normal(8, 2, 5)
        random = rng.poisson(2, size=20).astype(float)
        reference = Reference(random.mean(), random.mean(), np.column_stack([random, random]))
        got = retention_estimate(Sample(clean), Sample(score), reference)
        hits += got.low <= (8 - 2) / (20 - 2) <= got.high
    assert 0.93 <= hits / 1000 <= 0.97


def simulate(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Scores (runs, 5 variants) with a shared run effect, true mean 10."""
    run_effect = rng.normal(0, 2, size=(runs, 1))
    return 10 + np.array([-2, -1, 0, 1, 2]) + run_effect + rng.normal(0, 1, size=(runs, 5))


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_intervals_over_whole_runs_cover_what_they_claim(runs: int) -> None:
    """95 % intervals must cover 92 to 98 % of the time: 600 simulated experiments each."""
    rng = np.random.default_rng(runs)
    hits = 0
    for _ in range(600):
        got = estimate(mean, simulate(rng, runs))
        hits += got.low <= 10 <= got.high
    assert 0.92 <= hits / 600 <= 0.98


def test_the_simulation_exposes_intervals_that_ignore_runs() -> None:
    """Treating every cell as independent covers under 80 %, so the test above means something."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(600):
        got = estimate(mean, simulate(rng, 3).ravel())
        hits += got.low <= 10 <= got.high
    assert hits / 600 < 0.8
