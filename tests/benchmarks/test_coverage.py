"""Intervals cover what they claim under the variances that were measured, not invented ones."""

import numpy as np
import pytest

from benchmarks import coverage
from reprl.analysis.stats import Sample, mean_estimate
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


def test_the_page_has_a_table_made_by_the_script() -> None:
    page = coverage.PAGE.read_text()
    made = coverage.replaced(page, "made\n")
    assert "<!-- coverage -->\nmade\n<!-- end -->" in made
    usual = coverage.typical(coverage.measured())
    assert f"between runs {usual.run:.1f}, between games {usual.game:.1f}" in page
    for runs in coverage.SEEDS:
        assert f"{runs} seeds" in page
