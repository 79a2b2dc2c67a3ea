"""Comparisons between methods against hand-worked cases and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from reprl.analysis.pairwise import (
    beats_random,
    can_be_tested,
    difference,
    exact_tests,
    holm,
    is_ranked,
    permutation_test,
    probability_of_improvement,
    seeds_needed,
    smallest_p,
)


def test_difference_is_paired_when_the_seeds_agree() -> None:
    got = difference({1: 10.0, 2: 20.0, 3: 33.0}, {3: 30.0, 1: 9.0, 2: 18.0})
    low, high = stats.t.interval(0.95, 2, 2.0, stats.sem([1, 2, 3]))
    assert got.paired
    assert (got.value, got.low, got.high) == pytest.approx((2.0, low, high))


@pytest.mark.filterwarnings("error")
def test_equal_values_on_one_side_are_no_reason_to_warn() -> None:
    got = difference({1: 1.6, 2: 1.6, 3: 1.6}, {1: 3.0, 2: 4.0})
    error = np.sqrt(0.5 / 2)  # all of it is the second's, with one degree of freedom
    assert got.high - got.value == pytest.approx(stats.t.ppf(0.975, 1) * error)
    assert beats_random([9.0, 9.0, 9.0], [1.0, 2.0, 0.0, 1.0]) is True
    assert beats_random([1.0, 1.0, 1.0], [1.0, 2.0, 0.0, 1.0]) is False


def test_beating_random_is_welchs_one_sided_test() -> None:
    rng = np.random.default_rng(0)
    for shift in np.linspace(0, 2, 21):
        a, b = rng.normal(shift, 2, 12), rng.normal(0, 1, 20)
        p = stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue
        assert beats_random(a, b) is bool(p < 0.05)


def test_difference_with_other_seeds_is_welchs() -> None:
    got = difference({1: 10.0, 2: 20.0}, {3: 4.0, 4: 5.0, 5: 9.0})
    want = stats.ttest_ind([10, 20], [4, 5, 9], equal_var=False).confidence_interval(0.95)
    assert not got.paired
    assert (got.low, got.high) == pytest.approx((want.low, want.high))


def test_one_seed_against_one_has_no_interval() -> None:
    got = difference({1: 10.0}, {1: 4.0})
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


def test_permutation_test_by_hand_and_against_scipy() -> None:
    assert permutation_test([10, 11, 12], [1, 2, 3]) == pytest.approx(2 / 20)
    a, b = [1.0, 4.0, 2.5, 7.0], [3.0, 8.0, 9.0, 6.0]
    want = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf
    ).pvalue
    assert permutation_test(a, b) == pytest.approx(want)


def test_many_runs_are_sampled_and_stay_close() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.8, 1, 14), rng.normal(0, 1, 14)
    assert permutation_test(a, b) == pytest.approx(stats.ttest_ind(a, b).pvalue, abs=0.02)


def test_three_against_three_cannot_be_tested() -> None:
    assert smallest_p(3, 3) == pytest.approx(0.10)
    p, sentence = exact_tests([([10, 11, 12], [1, 2, 3])])
    assert math.isnan(p[0])
    assert "3 against 3 seeds" in sentence
    assert "4 seeds per method" in sentence


def test_more_comparisons_need_more_seeds() -> None:
    assert seeds_needed(1) == 4  # 2/70 = 0.029
    assert seeds_needed(2) == 5  # 2 * 2/70 = 0.057 is too much; 2 * 2/252 = 0.016
    assert seeds_needed(10) == 6  # 10 * 2/252 = 0.079; 10 * 2/924 = 0.022


def test_enough_seeds_are_tested_and_corrected() -> None:
    separate = ([10, 11, 12, 13, 14], [1, 2, 3, 4, 5])
    equal = ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    p, sentence = exact_tests([separate, equal])
    assert p == pytest.approx([2 * 2 / 252, 1.0])
    assert "Holm" in sentence


def test_a_method_with_one_seed_leaves_the_others_their_tests() -> None:
    separate = ([10, 11, 12, 13, 14], [1, 2, 3, 4, 5])
    p, sentence = exact_tests([separate, ([10], [1, 2, 3, 4, 5]), ([1, 2, 3], [4, 5, 6])])
    assert p[0] == pytest.approx(2 / 252)  # the only test, so nothing to correct
    assert math.isnan(p[1])
    assert math.isnan(p[2])
    assert "1 comparison" in sentence
    assert "2 more have too few seeds" in sentence


def test_which_pairs_are_tested_depends_on_their_seeds_alone() -> None:
    assert can_be_tested([(4, 4), (4, 4)]) == []  # 2 * 2/70 = 0.057; either alone could, but which?
    assert can_be_tested([(4, 4), (6, 6)]) == [1]  # both: 2 * 2/70; one: 2/924
    assert can_be_tested([(6, 6), (2, 2), (6, 6)]) == [0, 2]


def test_sampled_tests_are_not_called_exact() -> None:
    many = list(range(12))
    assert exact_tests([(many, many)])[1].startswith("Permutation tests, the largest of them")


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_beats_random_rule() -> None:
    random = [0, 1, 2, 3, 2, 1, 0, 4]
    assert beats_random([12, 15, 9, 30], random) is True
    assert beats_random([1, 2, 0, 3], random) is False
    assert beats_random([0, 0, 0, 0], [0, 0]) is False
    assert beats_random([5], random) is None
    assert is_ranked([True, True, False]) is True
    assert is_ranked([True, False]) is False
    assert is_ranked([None, None]) is None
