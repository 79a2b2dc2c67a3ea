"""The slow memory of a game's picture: by hand, on real frames, saved and restored."""

import numpy as np
import pytest

from reprl.config import schema
from reprl.envs import make_vec_env
from reprl.envs.background import PictureMemory
from reprl.errors import UserError
from reprl.evaluation.evaluate import env_settings
from reprl.naming import is_plain, method_of, parts_of


def test_by_hand() -> None:
    background = PictureMemory(1, 2.0)
    shown = []
    for gray in (10, 10, 21, 21, 0):
        out = np.zeros((1, 1), np.uint8)
        background.difference(np.full((1, 1), gray, np.uint8), out)
        shown.append(int(out[0, 0]))
    assert shown == [0, 0, 11, 9, 14]  # the memory before each: 10, 10, 10, 12, 14
    background.forget()
    background.difference(np.full((1, 1), 200, np.uint8), out)
    assert int(out[0, 0]) == 0


def test_the_whole_range_fits() -> None:
    for first, then in ((0, 255), (255, 0)):
        background, out = PictureMemory(1, 1.0), np.zeros((1, 1), np.uint8)
        background.difference(np.full((1, 1), first, np.uint8), out)
        background.difference(np.full((1, 1), then, np.uint8), out)
        assert int(out[0, 0]) == 255


def test_a_drawing_vanishes_and_a_resting_paddle_stays() -> None:
    env = make_vec_env(["original", "green_lines"], 2, training=False, background=1.0)
    for k in range(2):
        env.queue(k, 7)
    env.reset()
    for _ in range(12):  # moved for a while, then at rest for three seconds
        env.step(np.full(2, 3))
    for _ in range(45):
        env.step(np.full(2, 0))
    clean, lines = env.observations()[:, -1].astype(int)
    paddle = env.objects()[0].boxes["paddle"]
    rows = slice(int(paddle.y * 84 / 210) + 1, int((paddle.y + paddle.h) * 84 / 210))
    columns = slice(int(paddle.x * 84 / 160) + 1, int((paddle.x + paddle.w) * 84 / 160) - 1)
    assert (clean[rows, columns] > 20).all()
    raw = make_vec_env(["original", "green_lines"], 2, training=False)
    for k in range(2):
        raw.queue(k, 7)
    raw.reset()
    before = np.abs(np.diff(raw.observations()[:, -1].astype(int), axis=0)).sum()
    assert before > 10_000  # the lines are there
    assert np.abs(clean - lines).sum() < before / 20  # and hide at most a ball


def test_without_it_frames_are_as_before_and_twice_the_same() -> None:
    plain = make_vec_env("green_lines", 1, training=False)
    seen = make_vec_env("green_lines", 1, training=False, background=1.0)
    one, other = plain.reset()[:, -1], seen.reset()[:, -1]
    assert one.any()
    assert not other.any()


@pytest.mark.parametrize("training", [True, False])
def test_saved_and_restored(training: bool) -> None:
    env = make_vec_env("diagonals", 2, training=training, background=0.5)
    actions = np.random.default_rng(0).integers(4, size=(400, 2))
    env.reset()
    for row in actions[:200]:
        env.step(row)
    snapshot = env.snapshot()
    expected = [env.step(row)[0] for row in actions[200:]]
    other = make_vec_env("diagonals", 2, seed=5, training=training, background=0.5)
    other.restore(snapshot)
    for row, observations in zip(actions[200:], expected, strict=True):
        np.testing.assert_array_equal(other.step(row)[0], observations)
    with pytest.raises(UserError, match="background"):
        make_vec_env("diagonals", 2, training=training).restore(snapshot)


def test_evaluation_sees_what_training_saw() -> None:
    class Model:
        env = make_vec_env(n_envs=1, background=2.0)

    assert env_settings(Model())["background"] == 2.0


def test_configuration() -> None:
    config = schema.load(["env.background=1"])
    assert config.env.background == 1
    assert method_of(parts_of(config.plain())) == "ppo-nature_background"
    assert not is_plain(config.plain())
    # off, it is not written: the hash of a run is that of versions that did not have it
    assert "background" not in schema.load([]).plain()["env"]
    with pytest.raises(UserError, match=r"env\.background=0 "):
        schema.load(["env.background=0"])
