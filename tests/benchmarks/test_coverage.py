"""Intervals cover what they claim under the variances that were measured, not invented ones."""

import numpy as np
import pytest

from benchmarks import coverage
from reprl.analysis.stats import Sample, mean_estimate
from reprl.evaluation.rating import bounds, deviance, strengths
from reprl.rng import numpy_stream

EXPERIMENTS = 4000
# Four standard errors of a share of 0.95 over 4,000 experiments, and 0.2 for the approximation.
BAND = (0.934, 0.966)


@pytest.fixture(scope="module")
def components():
    return coverage.measured()


def test_the_measured_variances_are_those_of_the_committed_games(components) -> None:
    assert len(components) == 6 * 5
    usual = coverage.typical(components)
    assert (usual.run, usual.game, usual.rest) == pytest.approx((3.04, 4.50, 11.09), abs=0.01)
    stuck = coverage.worst(components)
    assert stuck.game > 10 * (stuck.run + stuck.rest)


def test_the_vectorised_interval_is_the_reports() -> None:
    rng = numpy_stream(3, "coverage", "test")
    for games in (1.0, 0.0):
        v = coverage.Variances(1.0, games, 2.0)
        tables = coverage.simulate(rng, "normal", v, (20, 4, 6), own=False)
        low, high = coverage.two_way_bounds(tables)
        narrow, wide = coverage.t_bounds(tables)
        for i, table in enumerate(tables):
            got = mean_estimate(Sample(table.mean(axis=1), table))
            assert (got.low, got.high) == pytest.approx((low[i], high[i]))
            got = mean_estimate(Sample(table.mean(axis=1)))
            assert (got.low, got.high) == pytest.approx((narrow[i], wide[i]))


def test_the_floor_of_one_degree_of_freedom_is_in_both() -> None:
    rng = numpy_stream(7, "coverage", "floor")
    tables = coverage.simulate(rng, "normal", coverage.Variances(0, 0, 1), (400, 2, 3), own=False)
    low, high = coverage.two_way_bounds(tables)
    below = 0
    for i, table in enumerate(tables):
        sample = Sample(table.mean(axis=1), table)
        parts = sample.components()
        got = mean_estimate(sample)
        assert (got.low, got.high) == pytest.approx((low[i], high[i]))
        total = sum(part.value for part in parts)
        below += len(parts) > 1 and total**2 < sum(p.value**2 / p.freedom for p in parts)
    assert below > 20  # tables whose degrees of freedom would be a fraction of one
    assert np.mean((low <= coverage.MEAN) & (high >= coverage.MEAN)) > 0.93


@pytest.mark.parametrize("case", ["typical", "worst"])
def test_both_rules_cover_and_the_old_interval_did_not(components, case: str) -> None:
    v = getattr(coverage, case)(components)
    old, two_way, own = coverage.of_one_method("normal", v, 20, EXPERIMENTS)
    for rate in (*two_way, *own):
        assert BAND[0] <= rate <= BAND[1]
    assert old[-1] < {"typical": 0.88, "worst": 0.3}[case]  # with more seeds it gets worse
    assert np.all(np.diff(old) < 0.01)


def test_welchs_difference_covers(components) -> None:
    row = coverage.of_a_difference("normal", coverage.typical(components), 20, EXPERIMENTS)
    assert all(BAND[0] <= rate <= BAND[1] for rate in row)


def test_bootstraps_are_too_narrow(components) -> None:
    cells, bca = coverage.of_bootstraps(coverage.typical(components), 20, 300)
    assert max(cells) < 0.85
    assert bca[0] < 0.9


@pytest.mark.parametrize("match", coverage.MATCHES, ids=lambda m: f"{m.name} {m.apart:.0f}")
def test_intervals_of_ratings_cover(match: coverage.Match) -> None:
    few, _, many, most = coverage.of_ratings(match, 400)
    # Four standard errors of a share of 0.95 over 400 experiments are 0.044.
    for mean, least in (many, most):
        assert mean > 0.93
        assert least > 0.90
    assert few[0] > 0.86
    assert few[1] > 0.75  # three starts of twelve agents with many draws: the page says so


def test_resampled_games_did_not_cover_a_rating() -> None:
    close, *_, far = [coverage.of_resampled_games(match, 400) for match in coverage.TWO]
    assert close[0] < 0.85
    assert max(far[:2]) < 0.05
    assert far[2] < 0.4


def test_the_simulated_interval_of_a_rating_is_the_reports() -> None:
    inside = 0
    for match in coverage.MATCHES:
        rng = numpy_stream(1, "coverage", "ratings", "test")
        won = coverage.wins(match.scores(rng, 8, 6))
        together = strengths(won)
        truth = together.best + rng.normal(0, 1, together.best.shape)
        held = deviance(together, truth) <= together.limit
        for one, at, expected in zip(won, truth, held, strict=True):
            low, high = bounds(strengths(one))
            assert ((low <= at) & (at <= high)).tolist() == expected.tolist()
        inside += held.mean() / len(coverage.MATCHES)
    assert 0.2 < inside < 0.98  # both kinds were seen


def test_the_truth_of_agents_with_draws_is_what_many_starts_say() -> None:
    match = coverage.Match("two", (0.0, 1.0), "draws")
    won = coverage.wins(match.scores(numpy_stream(2, "coverage", "draws"), 1, 50_000)).sum((0, 1))
    apart = np.log(won[1, 0] / won[0, 1])  # of two agents the maximum is in closed form
    assert np.diff(match.truth(50_000))[0] == pytest.approx(apart, abs=0.05)


def test_the_page_has_a_table_of_ratings_made_by_the_script() -> None:
    page = coverage.PAGE.read_text()
    made = coverage.replaced(page, "made\n", "ratings", "end ratings")
    assert "<!-- ratings -->\nmade\n<!-- end ratings -->" in made
    for match in coverage.MATCHES:
        assert f"| {match.name} | {match.apart:.0f} | " in page


def test_the_page_has_a_table_made_by_the_script() -> None:
    page = coverage.PAGE.read_text()
    made = coverage.replaced(page, "made\n")
    assert "<!-- coverage -->\nmade\n<!-- end -->" in made
    usual = coverage.typical(coverage.measured())
    assert f"between runs {usual.run:.1f}, between games {usual.game:.1f}" in page
    for runs in coverage.SEEDS:
        assert f"{runs} seeds" in page
