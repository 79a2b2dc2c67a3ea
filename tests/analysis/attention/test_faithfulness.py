"""Faithfulness on a policy that depends on a known region, and on nothing else."""

import numpy as np
import pytest
import torch
from toys import REGION, RegionNetwork

from reprl.analysis.attention.faithfulness import (
    curve_table,
    masked_returns,
    pixel_order,
    policy_curves,
    randomised,
    replaced,
    sanity_check,
    similarity,
    typical_picture,
)
from reprl.analysis.attention.views import Attribution, make_view

RNG = np.random.default_rng(3)


def pictures(count=12):
    return RNG.integers(0, 256, (count, 4, 84, 84)).astype(np.uint8)


def region_maps(count=12, where=REGION):
    maps = np.zeros((count, 84, 84), np.float32)
    maps[(slice(None), *where)] = 1.0
    return maps


def table_of(maps):
    observations = pictures(len(maps))
    dark = np.zeros((4, 84, 84), np.uint8)
    curves = policy_curves(RegionNetwork(strength=0.02), observations, maps, filling=dark)
    table = curve_table(curves, np.arange(len(maps)) // 3)
    return curves, table.set_index(["test", "order"])


def test_the_true_region_beats_other_orders():
    curves, table = table_of(region_maps())
    for test in ("deletion", "insertion"):
        for rival in ("random", "shifted"):
            assert table.loc[(test, rival), "advantage_low"] > 0, (test, rival)
    # The region is under 1 % of the pixels: deleting it does all there is to do, at once.
    deletion = curves["deletion", "attention"].mean(axis=0)
    assert deletion[0] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(deletion[1:], deletion[-1], rtol=1e-4)
    insertion = curves["insertion", "attention"].mean(axis=0)
    np.testing.assert_allclose(insertion[1:], 0, atol=1e-6)


def test_a_map_of_the_wrong_place_has_no_advantage():
    _, table = table_of(region_maps(where=(slice(60, 68), slice(5, 13))))
    for test in ("deletion", "insertion"):
        assert table.loc[(test, "random"), "advantage"] < 0.005 + table["area"].max() * 0.1


def test_order_and_replacement_by_hand():
    maps = np.array([[[0.1, 0.9], [0.5, 0.3]]])
    order = pixel_order(maps, "attention")
    assert order.tolist() == [[1, 2, 3, 0]]
    picture = np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2) + 10
    blank = np.zeros((1, 2, 2), np.uint8)
    removed = replaced(picture, order, 0.5, blank, keep=False)
    assert removed.tolist() == [[[[10, 0], [0, 13]]]]
    kept = replaced(picture, order, 0.5, blank, keep=True)
    assert kept.tolist() == [[[[0, 11], [12, 0]]]]


def test_a_constant_map_orders_pixels_at_random():
    order = pixel_order(np.zeros((2, 8, 8)), "attention")
    assert order[0].tolist() != sorted(order[0].tolist())
    assert sorted(order[0].tolist()) == list(range(64))


def test_typical_picture_has_no_moving_ball():
    frames = np.full((9, 1, 12, 12), 40, np.uint8)
    for t in range(9):
        frames[t, 0, t, t] = 200
    assert (typical_picture(frames) == 40).all()


class BlindView(Attribution):
    """An edge detector: it shows the picture whatever the weights are."""

    name = "gradient"

    def cells(self, images):
        return images[:, -1:].diff(dim=2, prepend=images[:, -1:, :1]).abs()


def test_randomised_weights_change_gradients_but_not_an_edge_detector(monkeypatch):
    network = RegionNetwork()
    observations = pictures(3)
    honest = sanity_check(make_view(network, "gradient"), observations)
    assert honest["similarity"].iloc[-1] < 0.1
    import reprl.analysis.attention.faithfulness as module

    monkeypatch.setattr(module, "make_view", lambda network, name: BlindView(network))
    fooled = sanity_check(BlindView(network), observations)
    assert fooled["similarity"].iloc[-1] == pytest.approx(1.0)


def test_randomising_leaves_the_agent_alone_and_keeps_the_scale():
    network = RegionNetwork()
    before = network.weights.detach().clone()
    for _, twin in randomised(network, seed=1):
        assert torch.equal(network.weights, before)
        assert not torch.equal(twin.weights, before)
        assert torch.equal(twin.weights.flatten().sort().values, before.flatten().sort().values)


def test_similarity():
    maps = RNG.random((4, 9, 9))
    assert similarity(maps, maps**3) == pytest.approx(1.0)  # ranks only
    assert similarity(maps, -maps) == pytest.approx(-1.0)
    assert similarity(maps, np.ones_like(maps)) == 0.0


class Elsewhere(Attribution):
    """Attends to a corner that RegionNetwork does not depend on."""

    name = "elsewhere"

    def cells(self, images):
        cells = torch.zeros(len(images), 1, 84, 84)
        cells[:, :, 70:, :20] = 1.0
        return cells


class Onto(Elsewhere):
    """Attends to all the pixels it depends on."""

    def cells(self, images):
        cells = torch.zeros(len(images), 1, 84, 84)
        cells[(slice(None), slice(None), *REGION)] = 1.0
        return cells


class FourActions(RegionNetwork):
    """RegionNetwork for Breakout: the region decides between left and right."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[torch.Tensor] = []

    def forward(self, images):
        s = super().forward(images)
        self.answers.append(torch.cat([s * 0, s - 0.5], dim=1))
        return self.answers[-1]


@pytest.mark.parametrize(
    ("view", "same", "other"),
    [
        (Elsewhere, "attended removed", "attended only"),
        (Onto, "attended only", "attended removed"),
    ],
)
def test_masked_play_changes_only_what_the_policy_depends_on(view, same, other):
    filling = np.full((4, 84, 84), 90, np.uint8)
    wanted = {"share": 0.01, "games": 2, "seed": 5, "max_steps": 40}
    answers, tables = {}, {}
    for condition in ("intact", same, other):
        network = FourActions()
        looking = view(network)
        tables[condition] = masked_returns(
            looking, "original", filling, conditions=(condition,), **wanted
        )
        answers[condition] = torch.stack(network.answers)  # (steps, games, actions)
    assert torch.equal(answers["intact"], answers[same])
    assert not torch.equal(answers["intact"], answers[other])
    assert all((table["n_games"] == 2).all() for table in tables.values())
