"""Statistics against hand-worked arrays, scipy, and simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from reprl.analysis.stats import (
    absolute_gap,
    estimate,
    gap_estimate,
    iqm,
    mean,
    relative_gap,
    retention,
    retention_estimate,
)


def test_gaps_by_hand() -> None:
    assert absolute_gap([20, 10], [5, 12]).tolist() == [15, -2]
    np.testing.assert_allclose(relative_gap([20, 10, 0], [5, 12, 3]), [0.75, -0.2, np.nan])


def test_retention_by_hand_and_its_guard() -> None:
    # (6-2)/(21-1) = 0.2; no loss = 1; random play = 0; 1.9 - 1 < 1 point learned -> NaN; exactly 1
    got = retention([6, 21, 2, 1.5, 1.5], [21, 21, 21, 1.9, 2.0], [2, 1, 2, 1, 1], 1.0)
    np.testing.assert_allclose(got, [0.2, 1.0, 0.0, np.nan, 0.5])


def test_iqm_cuts_a_quarter_at_either_end() -> None:
    assert iqm(np.array([0.0, 1, 2, 3, 4, 5, 6, 1000])) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert iqm(np.array([[0.0, 1, 2, 3], [4, 5, 6, 1000]])) == pytest.approx(3.5)


def test_mean_of_few_runs_has_the_t_interval() -> None:
    runs = np.array([5.0, 8.0, 12.0])
    got = estimate(mean, runs)
    low, high = stats.t.interval(0.95, 2, runs.mean(), stats.sem(runs))
    assert (got.value, got.low, got.high) == pytest.approx((25 / 3, low, high))
    assert (got.n_seeds, got.interval) == (3, "t")


def test_many_runs_agree_with_scipys_bca() -> None:
    runs = np.random.default_rng(3).gamma(2.0, 3.0, size=40)
    got = estimate(mean, runs)
    want = stats.bootstrap((runs,), np.mean, method="BCa", n_resamples=9999, rng=1)
    assert got.interval == "bca"
    assert got.low == pytest.approx(want.confidence_interval.low, abs=0.1)
    assert got.high == pytest.approx(want.confidence_interval.high, abs=0.1)


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
    got = gap_estimate([10, 50, 90], [4, 44, 84])
    assert (got.value, got.low, got.high) == pytest.approx((6, 6, 6))


def test_retention_estimate_is_a_ratio_of_means() -> None:
    got = retention_estimate([21, 11], [11, 2], random_clean=1.0, random_score=1.0)
    assert got.value == pytest.approx((6.5 - 1) / (16 - 1))
    assert got.low < got.value < got.high
    assert np.isnan(retention_estimate([1.5, 1.6], [1, 1], 1.0, 1.0).value)


def simulate(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Scores (runs, 5 variants) with a shared run effect, true mean 10."""
    run_effect = rng.normal(0, 2, size=(runs, 1))
    return 10 + np.array([-2, -1, 0, 1, 2]) + run_effect + rng.normal(0, 1, size=(runs, 5))


@pytest.mark.parametrize("statistic", [mean, iqm])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_intervals_over_whole_runs_cover_what_they_claim(statistic, runs: int) -> None:
    """95 % intervals must cover 92 to 98 % of the time: 600 simulated experiments each."""
    rng = np.random.default_rng(runs)
    hits = 0
    for _ in range(600):
        got = estimate(statistic, simulate(rng, runs))
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


def test_bca_covers_with_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """BCa at 24 runs: 90 to 98 % over 200 experiments."""
    monkeypatch.setattr("reprl.analysis.stats.RESAMPLES", 1000)
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(200):
        got = estimate(mean, simulate(rng, 24))
        hits += got.low <= 10 <= got.high
    assert 0.90 <= hits / 200 <= 0.98
