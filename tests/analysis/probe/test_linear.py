"""The mathematics of probes against hand-worked numbers, and controls that must come out."""

import numpy as np
import pytest
from scipy.optimize import minimize

from reprl.analysis.probe.linear import (
    Axes,
    Readout,
    balanced_accuracy,
    correlation,
    logistic,
    r2,
    ridge,
)


def test_ridge_by_hand():
    # One unit with x = -1, 0, 1 and y = 2, 3, 7: the slope is 5 / (2 + penalty), the mean 4.
    x, y = np.array([[-1.0], [0.0], [1.0]]) + 10, np.array([[2.0], [3.0], [7.0]])
    axes = Axes(x @ x.T)
    assert axes.variance == pytest.approx(2)
    for penalty in (0.0, 0.5):  # of the variance, which is 2
        weights, offsets = ridge(axes, y, np.array([penalty]))
        read = axes.coordinates(np.array([[12.0]]) @ x.T) @ weights + offsets  # at x = 2
        assert read.item() == pytest.approx(4 + 2 * 5 / (2 + 2 * penalty))


def test_ridge_in_the_space_of_frames_is_ridge_in_the_space_of_units():
    draw = np.random.default_rng(0)
    x, y, new = draw.normal(size=(12, 30)), draw.normal(size=(12, 2)), draw.normal(size=(4, 30))
    centred = x - x.mean(axis=0)
    strength = 0.1 * (centred**2).sum()
    direct = np.linalg.solve(centred.T @ centred + strength * np.eye(30), centred.T @ y)
    axes = Axes(x @ x.T)
    weights, offsets = ridge(axes, y, np.full(2, 0.1))
    read = axes.coordinates(new @ x.T) @ weights + offsets
    np.testing.assert_allclose(read, (new - x.mean(axis=0)) @ direct + y.mean(axis=0))


def test_logistic_finds_the_minimum_that_scipy_finds():
    draw = np.random.default_rng(1)
    x = draw.normal(size=(40, 3)) + 2
    yes = (x[:, 0] - x[:, 1] + draw.normal(size=40) > 0.8).astype(float)
    assert 5 < yes.sum() < 20  # both answers count alike, although one is rarer
    centred = x - x.mean(axis=0)
    strength = 0.05 * (centred**2).sum() / 4
    counts = np.where(yes > 0, 0.5 / yes.mean(), 0.5 / (1 - yes.mean()))

    def loss(w):
        margins = np.where(yes > 0, 1, -1) * (centred @ w[:3] + w[3])
        return (counts * np.log1p(np.exp(-margins))).sum() + strength / 2 * (w[:3] ** 2).sum()

    best = minimize(loss, np.zeros(4), tol=1e-10).x
    axes = Axes(x @ x.T)
    weights, offsets = logistic(axes, yes[:, None], np.array([0.05]))
    read = axes.fitted @ weights + offsets
    np.testing.assert_allclose(read[:, 0], centred @ best[:3] + best[3], atol=1e-3)


def test_scores_by_hand():
    truth = np.array([0.0, 1.0, 2.0])
    assert r2(truth, truth) == 1
    assert r2(np.full(3, 1.0), truth) == 0
    assert r2(np.array([1.0, 1.0, 3.0]), truth) == pytest.approx(1 - 2 / 2)
    assert correlation(5 + 2 * truth, truth) == pytest.approx(1)
    assert correlation(np.ones(3), truth) == 0
    yes = np.array([1, 1, 1, 1, 0])
    assert balanced_accuracy(np.ones(5), yes) == 0.5
    assert balanced_accuracy(np.array([1, 1, 1, -1, -1]), yes) == pytest.approx((0.75 + 1) / 2)


def test_what_is_there_is_read_and_what_is_shuffled_is_not():
    draw = np.random.default_rng(2)
    games = np.repeat(np.arange(8), 40)
    x = draw.normal(size=(320, 500))
    labels = np.stack([3 * x[:, 0] + 40, x[:, 1] > 0.5], axis=1)
    yes_no = np.array([False, True])
    new = draw.normal(size=(200, 500))
    x[:, 2:] *= 0.05
    new[:, 2:] *= 0.05
    read = Readout.fit(x @ x.T, labels, yes_no, games).read(new @ x.T)
    assert r2(read[:, 0], 3 * new[:, 0] + 40) > 0.95
    assert balanced_accuracy(read[:, 1], new[:, 1] > 0.5) > 0.9
    mixed = labels[draw.permutation(320)]
    read = Readout.fit(x @ x.T, mixed, yes_no, games).read(new @ x.T)
    assert abs(r2(read[:, 0], 3 * new[:, 0] + 40)) < 0.1
    assert abs(balanced_accuracy(read[:, 1], new[:, 1] > 0.5) - 0.5) < 0.15
