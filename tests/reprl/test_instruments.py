"""Instruments: dead units that were killed by hand, and every kind of collapsed mask."""

import json
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from reprl.algorithms.diagnostics import (
    MaskMonitor,
    common_peak,
    dead_units,
    inspect,
    is_black,
    is_border,
    is_saturated,
    mask_entropy,
    mask_mean,
)
from reprl.components import resolve
from reprl.encoders import Impala, Nature

SPACE = spaces.Box(0, 255, (4, 36, 36), np.uint8)
BIG = spaces.Box(0, 255, (4, 84, 84), np.uint8)


def test_units_killed_by_hand_are_counted_in_their_layer():
    model = Nature(BIG, dropout=0.9)
    model.train()
    with torch.no_grad():
        for layer in (model.cnn[0], model.cnn[2], model.linear[0]):
            layer.bias.fill_(1e4 if layer is model.cnn[2] else 100.0)  # all fire
        model.cnn[2].bias[:16] = -1e6
        model.linear[0].bias[:128] = -1e6
        model.cnn[4].bias.fill_(-1e6)
    dead = dead_units(model, torch.rand(3, 4, 84, 84))
    assert dead == {"cnn.1": 0.0, "cnn.3": 0.25, "cnn.5": 1.0, "linear.1": 0.25}
    assert model.training
    assert not any(m._forward_hooks for m in model.modules())


def test_a_unit_that_fires_once_is_alive():
    model = Nature(BIG)
    with torch.no_grad():
        model.cnn[0].weight.zero_()
        model.cnn[0].bias.zero_()
        model.cnn[0].weight[3, 0, 0, 0] = 1.0
    images = torch.zeros(5, 4, 84, 84)
    assert dead_units(model, images)["cnn.1"] == 1
    images[4, 0, 76, 76] = 1  # one pixel of one sample reaches unit 3
    assert dead_units(model, images)["cnn.1"] == pytest.approx(31 / 32)


def test_mask_and_residual_layers_are_watched_too():
    model = Impala(SPACE, attention={**resolve("attention", "conv_deep"), "resolution": 9})
    dead = dead_units(model, torch.rand(2, 4, 36, 36))
    assert {"attention.branch.1", "attention.branch.3", "attention.mask.net.1"} <= set(dead)
    assert sum("cnn" in name for name in dead) == 2 * 6 + 1


def one_cell(row, column, batch=4, size=7, value=1.0):
    maps = torch.zeros(batch, 1, size, size)
    maps[:, :, row, column] = value
    return maps


def test_mean_and_entropy_by_hand():
    assert mask_mean(torch.full((2, 1, 7, 7), 0.25)) == pytest.approx(0.25)
    assert mask_entropy(torch.full((2, 3, 7, 7), 0.25)) == pytest.approx(1, abs=1e-5)
    assert mask_entropy(one_cell(2, 2)) == pytest.approx(0, abs=1e-4)
    two = one_cell(2, 2) + one_cell(4, 5)
    assert mask_entropy(two) == pytest.approx(math.log(2) / math.log(49), abs=1e-4)


def test_labels_of_one_look():
    healthy = one_cell(3, 3)
    assert not any(check(healthy) for check in (is_black, is_saturated, is_border))
    assert is_black(torch.full((2, 1, 7, 7), 0.01))
    assert not is_black(one_cell(3, 3, value=0.5, size=21))  # sparse is not black
    assert is_saturated(torch.full((2, 1, 7, 7), 0.97))
    assert not is_saturated(torch.full((2, 1, 7, 7), 0.97) - 0.9 * one_cell(1, 1, batch=2))
    assert is_border(0.3 + 0.7 * one_cell(0, 4))
    assert not is_border(one_cell(0, 4) + one_cell(3, 4))
    assert not is_border(torch.full((2, 1, 7, 7), 0.5))
    assert not is_border(one_cell(0, 0, size=3))


def test_a_softplus_mask_that_lets_nothing_through_is_black():
    """Its attention is divided by the maximum, so the mask's own output is what tells."""
    model = Nature(BIG, attention=resolve("attention", "softplus"))
    images = torch.rand(3, 4, 84, 84)
    for bias, labels in ((-8.0, ("black",)), (3.0, ())):
        with torch.no_grad():
            model.attention.mask.net[-1].bias.fill_(bias)
        dead, raw = inspect(model, images)
        attention = model.encode(images).attention
        assert attention.amax().item() == pytest.approx(1)
        report = MaskMonitor().look(attention, raw)
        assert set(report.labels) - {"saturated"} == set(labels)
        assert "cnn.1" in dead
    assert raw.shape == (3, 1, 7, 7)
    assert raw.mean().item() > 1  # softplus(3), not divided by anything
    assert inspect(Nature(BIG), images)[1] is None


def test_common_peak():
    maps = torch.cat([one_cell(1, 2, batch=3), one_cell(4, 4, batch=1)])
    assert common_peak(maps) == (9, 0.75)


def test_a_peak_in_one_place_is_stuck_only_after_patience():
    monitor = MaskMonitor(patience=3)
    labels = [monitor.look(one_cell(2, 3)).labels for _ in range(4)]
    assert labels == [(), (), ("stuck",), ("stuck",)]
    assert monitor.look(one_cell(2, 4)).labels == ()  # it moved


def test_a_mask_that_follows_its_input_is_never_stuck():
    monitor = MaskMonitor(patience=2)
    moving = torch.cat([one_cell(i, 3, batch=1) for i in range(1, 5)])
    assert [monitor.look(moving).labels for _ in range(5)] == [()] * 5


def test_flat_masks_are_not_called_stuck():
    monitor = MaskMonitor(patience=2)
    for value, label in [(0.01, ("black",)), (0.99, ("saturated",)), (0.5, ())]:
        for _ in range(3):
            assert monitor.look(torch.full((4, 1, 7, 7), value)).labels == label


def test_state_survives_json():
    first, second = MaskMonitor(patience=3), MaskMonitor(patience=3)
    for _ in range(2):
        first.look(one_cell(2, 3))
    second.load_state(json.loads(json.dumps(first.state())))
    report = second.look(one_cell(2, 3))
    assert report.labels == ("stuck",) == first.look(one_cell(2, 3)).labels
    assert report.numbers() == {
        "mean": pytest.approx(1 / 49),
        "entropy": pytest.approx(0, abs=1e-4),
        "black": 0,
        "saturated": 0,
        "open": 0,
        "stuck": 1,
        "border": 0,
    }
