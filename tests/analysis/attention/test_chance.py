"""Masks that know nothing score chance, however their cells lie on the picture."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reprl.algorithms import A2C
from reprl.analysis.attention import attention_scores
from reprl.analysis.attention.lag import object_lag
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.pictures import moments
from reprl.analysis.attention.record import Recording, collect, scripted
from reprl.analysis.attention.scores import cell_peaks, chance, pointing, relative
from reprl.analysis.attention.study import _scores
from reprl.analysis.attention.views import Attribution, look, make_view
from reprl.envs.vector import make_vec_env

pytestmark = pytest.mark.slow  # plays games

GRIDS = {"conv": (7, 7), "conv_21": (21, 21)}  # masks on cells of NatureCNN, or finer ones


@pytest.fixture(scope="module")
def views() -> dict[str, Attribution]:
    env = make_vec_env(n_envs=1)
    models = {name: A2C("CnnPolicy", env, seed=0, attention=name) for name in GRIDS}
    return {name: make_view(network_of(model)) for name, model in models.items()}


@pytest.fixture(scope="module")
def game(views) -> Recording:
    return collect(views["conv"], "green_lines", steps=120, n_envs=3, player=scripted(0))


def still(game: Recording, view: Attribution, mask: torch.Tensor) -> Recording:
    """The same game, seen through a mask that never moves."""
    return replace(game, view=view, cells=mask.expand(len(game.blocks), 1, *mask.shape))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("level", [0.3, 0.0])
def test_a_constant_mask_scores_exactly_chance(game, views, grid, level):
    recording = still(game, views[grid], torch.full(GRIDS[grid], level))
    table = _scores(recording)
    assert "lag" not in set(table["metric"])
    assert {"ball", "paddle", "bricks", "distractor"} <= set(table["object"])
    for _, row in table.iterrows():
        # Objects move over the grid, so that energy and pointing may differ between games.
        columns = ["value", "static"] + ["low", "high"] * (row["metric"] == "auc")
        for column in columns:
            what = (row["object"], row["metric"], column)
            assert row[column] == pytest.approx(row["chance"], abs=1e-6), what
    assert set(table.loc[table["metric"] == "auc", "chance"]) == {0.5}


def test_chance_is_not_the_area_where_cells_leave_the_border_out(game, views):
    recording = still(game, views["conv"], torch.ones(7, 7))
    mask = recording.masks()["paddle"]
    by_chance = chance("energy", mask, uniform=recording.uniform())
    assert by_chance.mean() < 0.5 * mask.mean()  # it is below the lowest cells


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spread", [0.0, 0.8], ids=["constant", "pattern"])
def test_a_mask_that_never_moves_has_no_lag(game, views, grid, spread):
    noise = torch.rand(GRIDS[grid], generator=torch.Generator().manual_seed(0)) - 0.5
    recording = still(game, views[grid], 0.5 + spread * noise)
    maps = relative(recording.maps(), recording.uniform())
    found = object_lag(maps, recording.masks()["ball"], recording.blocks, recording.times)
    assert found.n_frames > 20
    assert np.isnan(found.value)
    np.testing.assert_allclose(found.curve, 0, atol=1e-3)


def test_a_map_that_never_moves_has_no_lag_where_the_ball_drifts():
    """All balls fly into a warm corner: a late shift fits the map less, by no merit of its own."""
    ball = np.zeros((40, 24, 24), dtype=bool)
    blocks, times = np.divmod(np.arange(40), 20)
    for mask, t in zip(ball, times, strict=True):
        mask[t, t : t + 2] = True
    warm = -np.abs(np.add.outer(np.arange(24.0), np.arange(24.0)) - 20)  # warmest at t = 10
    found = object_lag(np.broadcast_to(warm - warm.min(), ball.shape), ball, blocks, times)
    assert found.n_frames == 20
    assert np.isnan(found.value)


def test_captions_call_a_constant_mask_once_chance(game, views):
    recording = still(game, views["conv"], torch.full((7, 7), 0.4))
    recording.clean_cells = recording.cells[: len(recording.film)]
    for moment in moments(recording, np.arange(10, 14)):
        words = [part.split()[-1] for part in moment.caption[1].split(" · ")]
        assert len(words) >= 2
        assert set(words) == {"1.0x"}


def test_a_single_bright_cell_points_at_its_centre_and_stands_out(game, views):
    mask = torch.full((7, 7), 0.1)
    mask[2, 5] = 1.0
    recording = still(game, views["conv"], mask)
    maps, basis = recording.maps(), recording.view.basis((84, 84))
    y, x = np.unravel_index(basis[2 * 7 + 5].argmax(), (84, 84))
    ball = np.zeros((1, 84, 84), dtype=bool)
    ball[0, y - 1 : y + 2, x - 1 : x + 2] = True
    table = attention_scores(
        maps[:1],
        {"ball": ball},
        np.zeros(1),
        cells=basis,
        weights=recording.weights()[:1],
        uniform=recording.uniform(),
    ).set_index("metric")
    assert table.loc["pointing", "value"] == 1.0
    assert table.loc["pointing", "chance"] == pytest.approx(1 / 49)
    assert table.loc["auc", "value"] > 0.99
    assert table.loc["energy", "value"] > 2 * table.loc["energy", "chance"]


def test_pointing_at_cells_by_hand():
    cells = np.zeros((2, 1, 4))
    cells[0, 0, :2], cells[1, 0, 2:] = (0.5, 0.5), (0.9, 0.1)  # the first has two peaks
    mask = np.array([[[True, False, True, False]]] * 2)
    peaks, uniform = cell_peaks(cells), cells.sum(axis=0)
    weights = np.array([[1.0, 0.2], [0.7, 0.7]])
    assert pointing(weights, mask, 0, peaks).tolist() == [0.5, 0.75]
    assert chance("pointing", mask, 0, peaks=peaks).tolist() == [0.75, 0.75]
    assert chance("energy", mask, uniform=uniform) == pytest.approx([1.4 / 2] * 2)


def test_a_mask_points_at_its_largest_cell_and_not_where_many_smaller_ones_blur_together(
    game, views
):
    mask = torch.full((7, 7), 0.1)
    mask[1:4, 1:4] = 0.9
    mask[5, 5] = 1.0
    recording = still(game, views["conv"], mask)
    basis = recording.view.basis((84, 84))
    y, x = np.unravel_index(basis[5 * 7 + 5].argmax(), (84, 84))
    ball = np.zeros(recording.maps().shape, dtype=bool)
    ball[:, y, x] = True
    # on pixels the block is the brighter place
    assert not (relative(recording.maps(), recording.uniform())[ball] == 1.0).any()
    scored = attention_scores(
        recording.maps(),
        {"ball": ball},
        recording.blocks,
        cells=basis,
        weights=recording.weights(),
        uniform=recording.uniform(),
    )
    assert scored.set_index("metric").loc["pointing", ["value", "static"]].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("method", ["gradient", "perturbation"])
def test_maps_on_pixels_are_compared_with_area_as_ever(game, views, method):
    some = slice(60, 66)
    view = make_view(views["conv"].network, method)
    cells = look(view, game.observations[some])
    recording = replace(
        game, view=view, cells=cells, objects=game.objects[some], blocks=np.arange(6) // 3
    )
    assert recording.uniform() is None
    assert view.basis((84, 84)) is None
    maps, masks = recording.maps().astype(float), recording.masks()
    recording.times = np.arange(6)
    table = _scores(recording).set_index(["object", "metric"])
    for name in ("paddle", "bricks", "distractor"):  # always on the screen
        inside = masks[name]
        energy = [m[i].sum() / m.sum() for m, i in zip(maps, inside, strict=True)]
        assert table.loc[(name, "energy"), "value"] == pytest.approx(np.mean(energy), rel=1e-4)
        assert table.loc[(name, "energy"), "chance"] == pytest.approx(inside.mean())
        aucs = [
            (np.sign(m[i][:, None] - m[~i][None]).mean() + 1) / 2
            for m, i in zip(maps.astype(np.float32), inside, strict=True)
        ]
        assert table.loc[(name, "auc"), "value"] == pytest.approx(np.mean(aucs), abs=1e-5)
        peaks = [np.unravel_index(m.argmax(), m.shape) for m in maps]
        ys, xs = np.mgrid[:84, :84]
        near = [
            (np.hypot(ys[i] - y, xs[i] - x) <= 2).any()
            for (y, x), i in zip(peaks, inside, strict=True)
        ]
        assert table.loc[(name, "pointing"), "value"] == pytest.approx(np.mean(near))
