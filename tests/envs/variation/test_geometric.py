"""A moved screen: pixels go where the truth says, the game stays the same."""

from __future__ import annotations

import numpy as np
import pytest

from reprl.envs import make_vec_env
from reprl.envs.games.breakout import ScriptedAgent
from reprl.envs.objects import Box, Grid, Objects, warped
from reprl.envs.variation import find
from reprl.envs.variation.geometric import Rotated, Scaled, Shifted
from reprl.errors import UserError

NAMES = ("screen_shifted", "screen_rotated", "screen_scaled")


def test_a_box_by_hand() -> None:
    """A quarter of a turn about the origin, then 20 to the right: (x, y) -> (20 - y, x)."""
    turn = ((0.0, -1.0, 20.0), (1.0, 0.0, 0.0))
    assert Box(2, 3, 4, 6).warped(turn) == Box(11, 2, 6, 4)
    assert Box(2, 30, 4, 6).warped(turn) is None  # left of the screen
    assert Box(2, 15, 4, 6).warped(turn) == Box(0, 2, 5, 4)  # half of it is
    picture = np.zeros((210, 160), bool)
    picture[3:9, 2:6] = True
    assert (warped(picture, turn) == Box(11, 2, 6, 4).mask()).all()
    grid = Grid(np.ones((3, 2), bool), 2, 3, 2, 2)
    seen = Objects({"it": Box(2, 3, 4, 6)}, {"them": grid}).warped(turn)
    assert (seen.masks()["them"] == Box(11, 2, 6, 4).mask()).all()
    back = ((0.0, 1.0, 0.0), (-1.0, 0.0, 20.0))
    twice = seen.warped(back)
    assert twice.it == Box(2, 3, 4, 6)
    assert (twice.masks()["them"] == grid.mask()).all()
    assert twice.console.grids["them"] == grid
    assert twice.console.it == Box(2, 3, 4, 6)


def test_how_far_each_severity_goes() -> None:
    for severity, pixels in ((0.0, 0), (0.5, 8), (1.0, 16)):
        effect = Shifted(severity=severity)
        assert effect.warp((210, 160)) == ((1, 0, pixels), (0, 1, pixels))
    middle = np.array([80.0, 105.0, 1.0])
    for kind in (Rotated, Scaled):
        assert np.allclose(np.array(kind(severity=1).warp((210, 160))) @ middle, (80, 105))
    right = np.array(Rotated(severity=1).warp((210, 160))) @ np.array([90.0, 105.0, 1.0])
    assert np.allclose(right - (80, 105), 10 * np.array([np.cos(np.pi / 18), np.sin(np.pi / 18)]))
    assert np.allclose(np.array(Scaled(severity=1).warp((210, 160)))[:, :2], 0.7 * np.eye(2))
    with pytest.raises(UserError, match="severity"):
        find("screen_rotated", 2)


@pytest.mark.parametrize("name", NAMES)
def test_objects_are_where_their_pixels_are(name: str) -> None:
    """Paddle and ball, one colour in Breakout, found in the moved picture of the real game."""
    variants = ["original", name]
    env = make_vec_env(variants, 2, training=False)
    for row in range(2):
        env.queue(row, 11)
    env.reset()
    agent, found = ScriptedAgent(), 0
    for _ in range(60):
        clean, moved = env.objects()
        assert moved.console.facts() == clean.facts()
        frames = env.frames().astype(int)
        player = (np.abs(frames[1] - (200, 72, 72)).sum(axis=2) < 40) & (
            np.arange(210)[:, None] > 110
        )
        if moved.ball is not None and moved.ball.y > 120 and moved.paddle is not None:
            for box in (moved.ball, moved.paddle):
                x, y = box.center
                found += 1
                assert player[int(y) - 3 : int(y) + 4, int(x) - 4 : int(x) + 5].any(), box
        actions = agent.predict([clean, moved], [11, 11])
        assert actions[0] == actions[1]  # the truth a player needs is the console's
        env.step(actions)
    assert found > 10
    bricks = env.objects()[1].masks()["bricks"]
    lit = env.frames()[1].max(axis=2) > 60
    assert lit[bricks].mean() > 0.95


def test_each_game_goes_to_its_own_side_and_continues_exactly() -> None:
    env = make_vec_env("screen_shifted", 1, training=False)
    env.reset()
    sides = set()
    for seed in range(20):
        env.queue(0, seed)
        env.restart(0)
        clean, moved = env.objects()[0].console.paddle, env.objects()[0].paddle
        sides.add((moved.x - clean.x, moved.y - clean.y))
    assert sides == {(x, y) for x in (-8, 8) for y in (-8, 8)}
    snapshot = env.snapshot()
    seen = [env.step(np.array([3]))[0] for _ in range(4)]
    other = make_vec_env("screen_shifted", 1, seed=9, training=False)
    other.restore(snapshot)
    assert all((other.step(np.array([3]))[0] == before).all() for before in seen)


def test_object_centric_observations_move_too() -> None:
    seen = {}
    for noise in ({}, {"missed": 0.001}):  # whole masks, and objects one by one
        env = make_vec_env("screen_rotated@1", 1, training=False, observation="binary", **noise)
        env.queue(0, 3)
        seen[bool(noise)] = env.reset()[0, -1]
        if not noise:
            expected = np.logical_or.reduce(
                [m for k, m in env.objects()[0].masks().items() if k in env.game.classes]
            )
            assert 0.6 < seen[False].mean() / (255 * expected.mean()) < 1.4
    assert np.abs(seen[True].astype(int) - seen[False]).mean() < 12
