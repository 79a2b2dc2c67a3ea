"""Effects of parts on average over others, held to hand-worked and simulated differences."""

import numpy as np
import pytest

from benchmarks import parts_page
from reprl.analysis.pairwise import difference
from reprl.analysis.stats import Sample


def test_the_mean_of_two_differences_by_hand() -> None:
    small = difference(Sample(np.array([3.0, 5.0])), Sample(np.array([1.0, 1.0])))
    large = difference(Sample(np.array([9.0, 9.0])), Sample(np.array([2.0, 4.0])))
    both = parts_page.mean_difference([small, large])
    assert both.value == pytest.approx((3 + 6) / 2)
    # each has one mean of two runs that differ by 2: a variance of 1, of the mean of both 2 / 4;
    # two summands of one degree of freedom make two
    half = 4.302653 * np.sqrt(0.5)
    assert (both.low, both.high) == pytest.approx((4.5 - half, 4.5 + half), rel=1e-5)
    assert both.n_first == both.n_second == 4


def test_its_interval_has_the_mean_effect_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    spread, effects = (4.0, 9.0, 2.0), (1.0, -2.0, 4.0)
    held, times = 0, 800
    for _ in range(times):
        found = [
            difference(Sample(rng.normal(effect, s, 3)), Sample(rng.normal(0, s, 3)))
            for effect, s in zip(effects, spread, strict=True)
        ]
        one = parts_page.mean_difference(found)
        held += one.low <= 1.0 <= one.high
    assert 0.92 <= held / times <= 0.99


def test_every_part_of_the_cross_has_a_name() -> None:
    for words in (parts_page.NOTHING, *parts_page.MASKS):
        assert words in parts_page.PARTS
        assert parts_page._and_contrastive(words) in parts_page.PARTS
