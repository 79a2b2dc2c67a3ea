"""Twin evaluation: measures by hand, one game in all pictures, dynamics refused."""

import math

import numpy as np
import pytest

from reprl.envs.vector import AtariVecEnv
from reprl.evaluation import TWIN_COLUMNS, evaluate, twin_evaluation
from reprl.evaluation.twin import jensen_shannon, mass_shift, relative_distance
from reprl.policy import player_of
from tests.helpers import refuses


def test_measures_by_hand():
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(math.log(2))
    assert jensen_shannon(np.array([0.3, 0.7]), np.array([0.3, 0.7])) == 0
    p, q, m = (0.5, 0.5), (0.9, 0.1), (0.7, 0.3)
    by_hand = sum(
        x * math.log(x / y)
        for pair in (zip(p, m, strict=True), zip(q, m, strict=True))
        for x, y in pair
    )
    assert jensen_shannon(np.array(p), np.array(q)) == pytest.approx(by_hand / 2)
    assert relative_distance(np.array([3.0, 4.0]), np.array([3.0, 4.0])) == 0
    assert relative_distance(np.array([3.0, 4.0]), np.array([0.0, 0.0])) == 1
    assert relative_distance(np.array([3.0, 0.0]), np.array([0.0, 4.0])) == pytest.approx(5 / 7)
    corner, other = np.zeros((1, 2, 2)), np.zeros((1, 2, 2))
    corner[0, 0, 0], other[0, 1, 1] = 0.4, 0.8
    assert mass_shift(corner, other) == 1
    assert mass_shift(corner, corner * 0.1) == pytest.approx(0)  # brightness alone is no shift
    assert mass_shift(corner, corner + other / 2) == pytest.approx(0.5)
    assert mass_shift(corner, np.zeros((1, 2, 2))) == 1
    assert mass_shift(np.zeros((1, 2, 2)), np.zeros((1, 2, 2))) == 0


def test_views_are_the_policys_own(masked):
    import torch

    pictures = np.random.default_rng(0).integers(0, 256, (3, 2, 36, 36), dtype=np.uint8)
    outputs, _ = player_of(masked).outputs(pictures, ())
    masked.policy.set_training_mode(False)
    with torch.no_grad():
        batch = torch.as_tensor(pictures)
        chances = masked.policy.get_distribution(batch).distribution.probs
        values = masked.policy.predict_values(batch).flatten()
        features = masked.policy.extract_features(batch)
    np.testing.assert_allclose(outputs.probs, chances.numpy(), rtol=1e-4)
    np.testing.assert_allclose(outputs.values, values.numpy(), rtol=1e-4)
    np.testing.assert_allclose(outputs.features, features.numpy(), rtol=1e-3, atol=1e-5)
    assert outputs.attention.ndim == 4
    assert len(outputs.attention) == 3


def test_a_stronger_variant_changes_more_and_an_absent_one_nothing(masked):
    specs = ["green_lines@0", "green_lines@0.5", "green_lines@1"]
    frame = twin_evaluation(masked, specs, steps=25, seed=3)
    assert list(frame.columns) == list(TWIN_COLUMNS)
    assert len(frame) == 75
    means = frame.groupby("variant", sort=False).mean(numeric_only=True)
    assert list(means.index) == ["green_lines@0", "green_lines", "green_lines@1"]
    assert (
        means.loc["green_lines@0", ["js", "flip", "value_error", "feature_distance"]] == 0
    ).all()
    assert means.loc["green_lines@0", "attention_shift"] == 0
    for measure in ("js", "value_error", "feature_distance", "attention_shift"):
        values = means[measure].to_numpy()
        assert values[1] > 0
        assert values[0] < values[2]
    assert means["feature_distance"].is_monotonic_increasing
    assert frame["attention_shift"].between(0, 1).all()


def test_the_shared_game_is_evaluations_own(model):
    """Its length in steps is known from evaluation; colours and strobes leave it alone too."""
    frame = twin_evaluation(model, ["player_red", "strobing_bricks", "blur"], steps=260, seed=2)
    assert frame.groupby("variant").size().tolist() == [260] * 3
    assert frame["attention_shift"].isna().all()
    steps = []
    evaluate(model, "original", 1, seed=2, progress=lambda game: steps.append(game.steps))
    assert steps[0] < 260  # so the second game has begun
    first = frame[frame["episode"] == 0]
    assert first["step_in_game"].max() == steps[0] - 1
    assert set(frame["episode"]) >= {0, 1}


def test_what_is_played_is_decided_by_the_clean_view(model, monkeypatch):
    """Action for action evaluation's own game, though the other view would play otherwise."""

    def played(play):
        actions, real = [], AtariVecEnv.step_async
        with monkeypatch.context() as patch:
            patch.setattr(
                AtariVecEnv, "step_async", lambda e, a: actions.append(int(a[0])) or real(e, a)
            )
            play()
        return actions[:40]

    own = {"seed": 2, "n_envs": 1, "frame_limit": 200}
    clean = played(lambda: evaluate(model, "original", 1, **own))
    assert played(lambda: evaluate(model, "green_lines@1", 1, **own)) != clean
    assert played(lambda: twin_evaluation(model, ["green_lines@1"], 40, seed=2)) == clean


def test_dynamics_are_refused_by_name(model):
    with refuses("'drift_left'"):
        twin_evaluation(model, ["green_lines", "drift_left"])
    with refuses("at least one variant"):
        twin_evaluation(model, ["original"])


def test_a_hidden_change_of_the_game_is_found_out(model):
    from dataclasses import replace

    from reprl.envs import find

    disguised = replace(find("faster_ball@1"), family="drawing", name="innocent")
    with refuses("'innocent@1'"):
        twin_evaluation(model, [disguised], steps=60)
