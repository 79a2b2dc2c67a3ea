"""The slow memory of a game's picture: by hand, on real frames, saved and restored."""

import numpy as np
import pytest

from reprl.config import schema
from reprl.envs import make_vec_env
from reprl.envs.background import LEFT_AFTER, TAKEN_IN_AFTER, AdaptiveMemory, PictureMemory
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
@pytest.mark.parametrize("background", [0.5, "adaptive"])
def test_saved_and_restored(training: bool, background: float | str) -> None:
    env = make_vec_env("diagonals", 2, training=training, background=background)
    actions = np.random.default_rng(0).integers(4, size=(400, 2))
    env.reset()
    for row in actions[:200]:
        env.step(row)
    snapshot = env.snapshot()
    expected = [env.step(row)[0] for row in actions[200:]]
    other = make_vec_env("diagonals", 2, seed=5, training=training, background=background)
    other.restore(snapshot)
    for row, observations in zip(actions[200:], expected, strict=True):
        np.testing.assert_array_equal(other.step(row)[0], observations)
    with pytest.raises(UserError, match="background"):
        make_vec_env("diagonals", 2, training=training).restore(snapshot)


def shown(memory: AdaptiveMemory, *pictures: np.ndarray) -> np.ndarray:
    """What the last of some pictures looks like through a memory."""
    out = np.zeros(pictures[0].shape, np.uint8)
    for picture in pictures:
        memory.difference(picture, out)
    return out


def with_mark(gray: int, x: int, ground: int = 0) -> np.ndarray:
    """A bar of two pixels, the lower one half as far from the ground."""
    picture = np.full((16, 16), ground, np.uint8)
    picture[8, x], picture[9, x] = gray, (gray + ground) // 2
    return picture


def test_adaptive_shows_every_colour_alike() -> None:
    for gray, ground in ((200, 0), (40, 0), (0, 200), (150, 100)):
        memory = AdaptiveMemory(16)
        seen = shown(memory, np.full((16, 16), ground, np.uint8), with_mark(gray, 5, ground))
        assert sorted(seen[seen > 0]) == [128, 255], (gray, ground)
        assert seen[8, 5] == 255


def test_adaptive_keeps_what_rests_and_drops_what_was_left() -> None:
    memory = AdaptiveMemory(16)
    shown(memory, with_mark(200, 5))  # there from the first picture on: belongs to it
    moved = shown(memory, with_mark(200, 10))
    assert moved[8, 10] == moved[8, 5] == 255  # where it is and where it was
    rested = shown(memory, *[with_mark(200, 10)] * LEFT_AFTER)
    assert rested[8, 10] == 255
    assert not rested[:, :8].any()
    gone = shown(memory, *[with_mark(200, 10)] * TAKEN_IN_AFTER)
    assert not gone.any()


def test_adaptive_gets_used_to_flicker() -> None:
    memory, rng = AdaptiveMemory(16), np.random.default_rng(0)
    flicker = [with_mark(0, 5) for _ in range(200)]
    for picture in flicker:
        picture[:4] = rng.integers(0, 200, (4, 16))
    early = shown(memory, *flicker[:3])
    assert early[:4].astype(bool).mean() > 0.2
    late = shown(memory, *flicker[3:], with_mark(200, 5))
    assert late[:4].astype(bool).mean() < 0.05
    assert late[8, 5] == 255


def test_adaptive_sees_ball_and_paddle_in_every_variant() -> None:
    variants = ["original", "green_lines", "diagonals", "noise", "background_gray"]
    variants += ["strobing_bricks", "player_blue", "player_red", "bricks_white"]
    env = make_vec_env(variants, len(variants), training=False, stack=1, background="adaptive")
    left, right, fire = (env.action_meanings.index(word) for word in ("LEFT", "RIGHT", "FIRE"))
    found: dict[str, list[list[bool]]] = {"ball": [], "paddle": []}
    env.reset()
    for t in range(220):
        actions = []
        for objects in env.objects():
            ball, paddle = objects.boxes["ball"], objects.boxes["paddle"]
            aim = 0.0 if ball is None else ball.center[0] - paddle.center[0]
            actions.append(fire if ball is None else left if aim < -6 else right if aim > 6 else 0)
        seen, *_ = env.step(np.array(actions))
        for name, hits in found.items():
            boxes = [objects.scaled(84).boxes[name] for objects in env.objects()]
            if t >= 60:
                pairs = zip(seen[:, 0], boxes, strict=True)
                hits.append([b is None or s[b.slices((84, 84))].any() for s, b in pairs])
    for name, hits in found.items():
        rates = dict(zip(variants, np.mean(hits, axis=0), strict=True))
        assert min(rates.values()) > 0.85, (name, rates)


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
    adaptive = schema.load(["env.background=adaptive"])
    assert method_of(parts_of(adaptive.plain())) == "ppo-nature_adaptive"
    with pytest.raises(UserError, match=r"env\.background=adaptiv .*adaptive"):
        schema.load(["env.background=adaptiv"])
