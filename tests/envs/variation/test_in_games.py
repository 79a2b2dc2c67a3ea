"""Variants through the vector environment: every one steps, twins stay twins, snapshots hold."""

import numpy as np
import pytest

from reprl.envs import make_vec_env
from reprl.envs.variation import variants
from reprl.envs.variation.base import PHYSICS
from reprl.envs.variation.lookup import catalogue

NAMES = variants()
SEEN = [n for n in NAMES if catalogue()[n].family not in PHYSICS]


def test_every_variant_plays_and_pictures_leave_twins_alone() -> None:
    """Same seed and actions: one game in all visual variants, told from its ground truth."""
    env = make_vec_env(n_envs=1, seed=4, training=False)
    actions = np.random.default_rng(0).integers(4, size=50)

    def game(name: str) -> tuple[np.ndarray, list, np.ndarray]:
        env.queue(0, 11, name)
        observations, truth = [env.reset()], []
        for action in actions:
            observations.append(env.step(np.array([action]))[0])
            truth += env.objects()
        return np.stack(observations), truth, env.frames()

    plain, truth, frames = game("original")
    for name in [*NAMES[1:], "green_lines+drift_left", "noise+player_red"]:
        observations, ours, pictures = game(name)
        if catalogue().get(name) is None or catalogue()[name].family != "mode":
            # Brown with the player's gray is the control: nothing of it reaches the agent.
            assert (observations != plain).any() == (name != "player_matched"), name
            assert name == "flicker" or (pictures != frames).any(), name  # not in every frame
        assert all(o.distractor.any() == _draws(name) for o in ours), name
        if name in SEEN or name == "noise+player_red":
            for here, there in zip(ours, truth, strict=True):
                here = here.console  # where the screen is moved, as before that
                assert (here.ball, here.paddle) == (there.ball, there.paddle), name
                assert (here.bricks == there.bricks).all(), name


def _draws(name: str) -> bool:
    return any(catalogue()[part].family == "drawing" for part in name.split("+"))


@pytest.mark.parametrize(
    "name",
    [
        *("moving_square", "random_squares+drift_left", "strobing_bricks+noise", "faster_ball"),
        *("moving_video+flicker", "mode_8+small_paddle"),
    ],
)
def test_a_snapshot_continues_in_another_environment(name: str) -> None:
    rng = np.random.default_rng(1)
    actions = rng.integers(4, size=(80, 1))
    first, second = (make_vec_env(name, n_envs=1, seed=s) for s in (0, 1))
    first.reset()
    second.reset()
    for action in actions[:30]:
        first.step(action)
    second.restore(first.snapshot())
    assert (first.objects()[0].distractor == second.objects()[0].distractor).all()
    for action in actions[30:]:
        ours, theirs = first.step(action), second.step(action)
        assert (ours[0] == theirs[0]).all()
        assert (ours[1] == theirs[1]).all()
        assert (first.objects()[0].distractor == second.objects()[0].distractor).all()


def test_drawings_are_for_any_game() -> None:
    env = make_vec_env(["original", "green_lines"], n_envs=2, seed=0, game="pong")
    env.reset()
    for _ in range(5):
        env.step(np.zeros(2, dtype=int))
    plain, drawn = env.frames()
    changed = (plain != drawn).any(-1)
    assert 400 < changed.sum() <= 600
    assert (drawn[changed] == (102, 203, 50)).all()
