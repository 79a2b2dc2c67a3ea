"""Object-centric observations show the truth and nothing else; their noise is that of the game."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from reprl.config import schema
from reprl.envs import GameEnv, make_vec_env
from reprl.envs.observation import OBSERVATIONS
from reprl.errors import UserError
from reprl.evaluation.evaluate import env_settings
from reprl.naming import is_plain, method_of, parts_of

STEPS = 16


def play(env: Any, steps: int = STEPS) -> np.ndarray:
    """Observations of a fixed game, (steps + 1, n, channels, size, size)."""
    actions = np.random.default_rng(0).integers(4, size=(steps, env.num_envs))
    return np.stack([env.reset(), *(env.step(row)[0] for row in actions)])


def shrunk(picture: np.ndarray) -> np.ndarray:
    return cv2.resize(picture, (84, 84), interpolation=cv2.INTER_AREA)


@pytest.mark.parametrize("game", ["breakout", "pong"])
def test_each_kind_is_made_of_the_truth(game: str) -> None:
    """Held to masks of env.objects() and to the picture a person sees."""
    for kind in OBSERVATIONS[1:]:
        env = make_vec_env("constant_rectangle" if game == "breakout" else "noise", 1,
                           game=game, training=False, observation=kind)  # fmt: skip
        classes = env.game.classes
        channels = len(classes) if kind == "planes" else 1
        assert env.channels == channels
        assert env.observation_space.shape == (4 * channels, 84, 84)
        env.reset()
        for action in np.random.default_rng(1).integers(4, size=STEPS):
            seen = env.step(np.array([action]))[0][0, -channels:]
            truth, frame = env.objects()[0], env.frames()[0]
            masks = truth.masks()
            for name, box in truth.painted.items():  # where the console paints another box
                masks[name] = box.mask()
            everything = np.logical_or.reduce([masks[name] for name in classes])
            expected = {
                "objects": [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) * everything],
                "binary": [255 * everything.astype(np.uint8)],
                "planes": [255 * masks[name].astype(np.uint8) for name in classes],
            }
            if kind in expected:
                assert (seen == np.stack([shrunk(p) for p in expected[kind]])).all()
            else:
                x, y = (round(v) for v in truth.boxes["paddle"].scaled(84).center)
                second = 255 * (len(classes) - 1) // len(classes)
                assert abs(int(seen[0, y - 4 : y + 4, x].max()) - second) < 120
                assert not seen[0][~shrunk(255 * everything.astype(np.uint8)).astype(bool)].any()


def test_a_drawing_is_not_shown_and_a_colour_only_as_pixels() -> None:
    made = {
        (variant, kind): play(make_vec_env(variant, 1, training=False, observation=kind))
        for variant in ("original", "green_lines_under", "player_white")
        for kind in ("objects", "binary")
    }
    assert (made["original", "binary"] == made["green_lines_under", "binary"]).all()
    assert (made["original", "binary"] == made["player_white", "binary"]).all()
    assert (made["original", "objects"] == made["green_lines_under", "objects"]).all()
    assert (made["original", "objects"] != made["player_white", "objects"]).any()


def test_planes_of_the_newest_frame_come_last_and_stacks_have_gaps() -> None:
    env = make_vec_env(n_envs=1, observation="planes", stack=3, gap=2, training=False)
    seen = play(env, 12)[:, 0].reshape(13, 3, 3, 84, 84)  # before a life is lost
    assert (seen[2:, 1] == seen[:-2, 2]).all()
    assert (seen[4:, 0] == seen[:-4, 2]).all()
    assert seen[-1, 2, 2, 23:30].any()  # bricks, the last class
    assert not seen[-1, 2, 1, :70].any()  # the paddle is below


def test_missed_mislabelled_and_shifted() -> None:
    def seen(**noise: Any) -> np.ndarray:
        env = make_vec_env(n_envs=1, training=False, observation="planes", stack=1, **noise)
        return play(env)[:, 0].astype(int)

    true = seen()
    assert not seen(missed=1.0).any()
    assert 0.4 < seen(missed=0.5).sum() / true.sum() < 0.6
    wrong = seen(mislabelled=1.0)
    assert not (wrong[:, 1, 76] & true[:, 1, 76]).any()  # the paddle, in another plane
    assert wrong[:, [0, 2], 75:77].any()
    off = seen(shifted=3)
    assert (off != true).any()
    rows = np.flatnonzero(off[:, 1].any(axis=(0, 2)))
    assert 73 <= rows.min() < 75  # 189 - 3 of 210 rows
    assert (seen(shifted=3) == off).all()  # the game's own stream
    assert (seen(shifted=3, missed=0.2) != off).any()


@pytest.mark.parametrize("training", [True, False])
def test_saved_and_restored(training: bool) -> None:
    settings: dict[str, Any] = {"observation": "planes", "missed": 0.3, "shifted": 2}
    env = make_vec_env("noise", 2, training=training, **settings)
    play(env, 20)
    snapshot = env.snapshot()
    actions = np.random.default_rng(5).integers(4, size=(20, 2))
    expected = [env.step(row)[0] for row in actions]
    other = make_vec_env("noise", 2, seed=3, training=training, **settings)
    other.restore(snapshot)
    assert all(
        (other.step(row)[0] == seen).all() for row, seen in zip(actions, expected, strict=True)
    )
    with pytest.raises(UserError, match="observation"):
        make_vec_env("noise", 2, training=training).restore(snapshot)


def test_what_cannot_be_shown_is_one_sentence() -> None:
    for settings, said in (
        ({"observation": "objects", "game": "boxing"}, "known in breakout, freeway and pong"),
        ({"observation": "object"}, "choose from frames, objects"),
        ({"missed": 0.1}, "observation=frames shows nothing"),
        ({"observation": "binary", "mislabelled": 0.1}, "choose observation=classes or planes"),
        ({"observation": "binary", "background": 1.0}, "background=1.0"),
        ({"observation": "binary", "gray": False}, "no colours"),
        ({"observation": "binary", "missed": 1.5}, "missed=1.5"),
    ):
        with pytest.raises(UserError, match=said):
            make_vec_env(n_envs=1, **settings)  # type: ignore[arg-type]
        with pytest.raises(UserError):
            GameEnv(**settings)  # type: ignore[arg-type]


def test_configuration_name_and_evaluation() -> None:
    config = schema.load(["env.observation=planes", "env.missed=0.1"])
    assert method_of(parts_of(config.plain())) == "ppo-nature_planes_missed_0.1"
    assert not is_plain(config.plain())
    assert "observation" not in schema.load([]).plain()["env"]
    with pytest.raises(UserError, match=r"env\.observation=objects needs a game's objects"):
        schema.load(["env.observation=objects", "env.game=boxing"])
    with pytest.raises(UserError, match=r"env\.observation=frames"):
        schema.load(["env.shifted=2"])

    class Model:
        env = make_vec_env(n_envs=1, observation="binary", missed=0.2)

    assert env_settings(Model())["observation"] == "binary"
    assert env_settings(Model())["missed"] == 0.2
