"""Recordings of real games: a hand-built ball detector must score high, its shuffled twin not."""

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from toys import ball_model

from reprl.algorithms import A2C as ReprlA2C
from reprl.analysis.attention import attention_scores
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.record import collect, scripted, uniform
from reprl.analysis.attention.study import study
from reprl.analysis.attention.views import make_view
from reprl.encoders.masks import SoftplusMask
from reprl.envs.vector import make_vec_env
from tests.helpers import refuses

pytestmark = pytest.mark.slow  # plays games


@pytest.fixture(scope="module")
def view():
    return make_view(network_of(ball_model()))


@pytest.fixture(scope="module")
def clean(view):
    return collect(view, steps=240, n_envs=2, seed=2, player=scripted(0))


@pytest.fixture(scope="module")
def lines(view):
    return collect(view, "green_lines", steps=80, n_envs=2, seed=2, player=uniform(0))


def ball_rows(recording, keep=slice(None)):
    masks = {name: mask[keep] for name, mask in recording.masks().items()}
    table = attention_scores(recording.maps()[keep], masks, recording.blocks[keep])
    return table.set_index(["object", "metric"])


def test_a_ball_detector_scores_high_on_real_frames(clean):
    middle = [  # where the detector looks; elsewhere it is black, which scores chance
        i for i, o in enumerate(clean.objects) if o.ball is not None and 100 < o.ball.y < 175
    ]
    assert len(middle) > 40
    table = ball_rows(clean, middle)
    # A flying ball is pooled from two frames: its picture is larger than its box, hence not 1.
    assert table.loc[("ball", "energy"), "value"] > 0.5
    assert table.loc[("ball", "pointing"), "value"] > 0.95
    assert table.loc[("ball", "auc"), "value"] > 0.95
    assert table.loc[("ball", "energy"), "value"] > 20 * table.loc[("ball", "energy"), "static"]
    assert table.loc[("paddle", "energy"), "value"] < 0.01


def test_its_shuffled_twin_is_at_chance():
    twin = make_view(network_of(ball_model(shuffled=True)))
    recording = collect(twin, steps=240, n_envs=2, seed=2, player=scripted(0))
    table = ball_rows(recording)
    for metric in ("energy", "pointing", "auc"):
        row = table.loc[("ball", metric)]
        assert abs(row["value"] - row["chance"]) < 0.03, metric


def test_drawn_lines_take_the_detectors_attention_away(clean, lines):
    table = ball_rows(lines)
    assert table.loc[("distractor", "energy"), "value"] > 0.8
    assert table.loc[("ball", "energy"), "value"] < 0.2
    assert ("distractor", "energy") not in ball_rows(clean).index


def test_attention_on_the_raw_frame_lies_where_it_does_on_the_view(clean):
    raw, seen = clean.maps((210, 160)), clean.maps()
    ys, xs = np.mgrid[:210, :160]
    for i in np.flatnonzero(seen.sum(axis=(1, 2)) > 0)[:20]:
        centre = np.array([(raw[i] * a).sum() / raw[i].sum() + 0.5 for a in (ys, xs)])
        small = np.array(
            [(seen[i] * a).sum() / seen[i].sum() + 0.5 for a in (ys[:84, :84], xs[:84, :84])]
        )
        np.testing.assert_allclose(centre / (210, 160), small / 84, atol=0.01)


def test_the_clean_twin_differs_only_where_the_variant_drew(lines):
    assert lines.clean_frames is not None
    assert len(lines.clean_frames) == len(lines.frames) == 40
    for m, index in enumerate(lines.film):
        changed = (lines.frames[m] != lines.clean_frames[m]).any(axis=-1)
        assert changed.any()
        assert not (changed & ~lines.objects[index].distractor).any()


def test_a_variant_that_changes_the_game_has_no_clean_twin(view):
    recording = collect(view, "gravity_down", steps=120, n_envs=1, seed=0, player=uniform(3))
    assert recording.clean_frames is None


def test_observations_belong_to_the_objects_beside_them(clean):
    for i in range(0, 240, 7):
        ball = clean.objects[i].ball
        if ball is not None and 100 < ball.y < 180:
            assert clean.observations[i, -1][ball.scaled(84).mask((84, 84))].max() > 20


def test_recordings_repeat_and_depend_on_the_seed(view):
    first, again, other = (collect(view, steps=40, n_envs=2, seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(first.observations, again.observations)
    np.testing.assert_array_equal(first.cells, again.cells)
    assert not np.array_equal(first.observations, other.observations)
    np.testing.assert_allclose(first.probabilities.sum(axis=1), 1, atol=1e-5)


def test_blocks_are_games_and_clocks_jump_at_lost_lives(view):
    recording = collect(view, steps=600, n_envs=2, seed=1, player=uniform(1))
    assert len(set(recording.blocks)) > 2  # random games last under 300 steps
    for block in set(recording.blocks):
        mine = recording.blocks == block
        times = recording.times[mine]
        lives = np.array([o.lives for o in np.array(recording.objects, dtype=object)[mine]])
        assert times[0] == 0
        np.testing.assert_array_equal(np.diff(times) > 1, np.diff(lives) < 0)


def test_a_game_without_ground_truth_is_looked_at_but_not_scored():
    settings = {"game": "boxing"}
    model = A2C("CnnPolicy", make_vec_env(n_envs=1, game="boxing"), seed=0)
    found = study(make_view(network_of(model)), steps=16, n_envs=1, settings=settings)
    assert found.scores is None
    assert found.recording.objects is None
    assert found.recording.maps().shape == (16, 84, 84)
    with refuses("ground truth"):
        found.recording.masks()


def test_study_labels_a_mask_and_finds_its_lag(view):
    found = study(view, steps=160, seed=2, n_envs=2, player=scripted(0))
    assert "saturated" not in found.labels
    lag = found.scores[found.scores["metric"] == "lag"]
    assert lag["value"].tolist() == [0.0]


def test_an_unbounded_mask_that_went_out_is_called_black():
    """Its attention is divided by its maximum: only the mask itself knows that it is dark."""
    model = ReprlA2C("CnnPolicy", make_vec_env(n_envs=1), seed=0, attention="softplus")
    mask = next(m for m in model.policy.modules() if isinstance(m, SoftplusMask))
    with torch.no_grad():
        mask.net[-1].bias.fill_(-10.0)
    found = study(make_view(network_of(model)), steps=16, n_envs=1)
    assert "black" in found.labels
