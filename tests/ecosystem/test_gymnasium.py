"""Gymnasium as it is installed: its checker, its wrappers and its vector environments around ours,
and a variant on an environment that is not ours.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import ale_py
import cv2
import gymnasium
import imageio.v2 as imageio
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import (
    AtariPreprocessing,
    FrameStackObservation,
    RecordEpisodeStatistics,
    RecordVideo,
)
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.env_util import make_vec_env as make_sb3_vec_env

import reprl  # noqa: F401  # registers its ids
from reprl.algorithms import PPO
from reprl.envs import VariantWrapper, find, make_vec_env
from reprl.envs.games.breakout import breakout_objects
from reprl.envs.single import GameEnv
from tests.helpers import refuses

gymnasium.register_envs(ale_py)
BREAKOUT = "ALE/Breakout-v5"


def ale(**arguments: Any) -> gymnasium.Env:
    return gymnasium.make(BREAKOUT, repeat_action_probability=0.0, **arguments)


# -- our own environment ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["reprl/Breakout-v0", "reprl:reprl/Breakout-v0", "reprl.envs.registration:reprl/Game-v0"],
)
def test_an_id_makes_an_environment_that_gymnasium_accepts(name: str) -> None:
    env = gymnasium.make(name, variant="green_lines", render_mode="rgb_array")
    if name.startswith("reprl/"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env.unwrapped)
    _, info = env.reset(seed=3)
    assert info["objects"].paddle is not None
    assert info["objects"].distractor.any()
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (210, 160, 3)
    assert (picture == (102, 203, 50)).all(axis=2).sum() == 4 * 150  # the published green pixels
    env.close()


def test_it_plays_the_games_of_make_vec_env() -> None:
    env = gymnasium.make("reprl/Breakout-v0", variant="random_lines", max_frames=240)
    ours = make_vec_env("random_lines", 1, 5, training=False, max_frames=240)
    seen, _ = env.reset(seed=5)
    assert np.array_equal(seen, ours.reset()[0])
    actions = np.random.default_rng(0)
    ends = 0
    while ends < 2:
        action = int(actions.integers(4))
        theirs, rewards, dones, infos = ours.step(np.array([action]))
        seen, reward, terminated, truncated, info = env.step(action)
        assert reward == rewards[0]
        assert (terminated or truncated) == dones[0]
        if dones[0]:
            assert np.array_equal(seen, infos[0]["terminal_observation"])
            assert (info["score"], info["frames"]) == tuple(infos[0]["episode"][k] for k in "rl")
            assert truncated == infos[0]["TimeLimit.truncated"]
            assert info["objects"].score == info["score"]  # of the game that ended, not of the next
            seen, _ = env.reset()
            ends += 1
        assert np.array_equal(seen, theirs[0])
    env.reset(seed=5)
    env.step(0)
    again, _ = env.reset(seed=5)
    ours.seed(5)
    assert np.array_equal(again, ours.reset()[0])


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_make_vec_and_its_wrappers(mode: str) -> None:
    make = {"max_frames": 400, "training": True, "variant": "diagonals"}
    envs = gymnasium.make_vec("reprl/Breakout-v0", num_envs=2, vectorization_mode=mode, **make)
    first, infos = envs.reset(seed=1)
    assert first.shape == (2, 4, 84, 84)
    assert [o.lives for o in infos["objects"]] == [5, 5]
    for _ in range(20):
        _, rewards, _, _, _ = envs.step(envs.action_space.sample())
        assert rewards.shape == (2,)
    envs.close()


def test_wrong_arguments_are_one_sentence() -> None:
    with refuses("variant", "diagonal", "'diagonals'"):
        gymnasium.make("reprl/Breakout-v0", variant="diagonal")
    with refuses("size", "1000", "512"):
        gymnasium.make("reprl/Breakout-v0", size=1000)
    env = gymnasium.make("reprl/Breakout-v0").unwrapped
    with refuses("reset()", error=gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    with refuses("action 9", "3"):
        env.step(9)


def test_commands_do_not_import_gymnasium_for_it() -> None:
    code = "import sys, reprl.cli.train; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- a variant on somebody else's ------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["diagonals", "noise", "moving_square", "green_lines_under"])
def test_every_picture_is_the_clean_one_with_the_variant_drawn(variant: str) -> None:
    clean, varied = ale(frameskip=4), VariantWrapper(ale(frameskip=4), variant)
    clean.reset(seed=0)
    varied.reset(seed=0)
    game = varied.screen
    for action in [1, *np.random.default_rng(1).integers(0, 4, 8).tolist()]:
        states = [effect.state() for effect in game.effects]
        expected = clean.step(action)[0]
        seen, *_, info = varied.step(action)
        effects = find(variant).build()
        for effect, state in zip(effects, states, strict=True):
            effect.load_state(state)
            effect.draw(expected, breakout_objects(clean.unwrapped.ale.getRAM()))
        assert np.array_equal(seen, expected)
        mask = np.zeros((210, 160), bool)
        effects[0].mask(mask)
        assert np.array_equal(info["objects"].distractor, mask)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("gray", [True, False])
def test_atari_preprocessing_shows_the_drawing(inside: bool, gray: bool) -> None:
    """It reads the emulator's screen past step(), where a drawing on observations is lost."""

    def made(variant: str | None) -> gymnasium.Env:
        env = ale(frameskip=1, obs_type="grayscale" if gray else "rgb")
        if variant and inside:
            env = VariantWrapper(env, variant)
        env = AtariPreprocessing(env, grayscale_obs=gray, screen_size=(160, 210))
        return VariantWrapper(env, variant) if variant and not inside else env

    clean, varied = made(None), made("diagonals")
    for env in (clean, varied):
        env.reset(seed=4)
    for action in (1, 2, 3, 0, 2, 2):
        plain, shown = clean.step(action)[0], varied.step(action)[0]
        drawn = np.zeros((210, 160, 3), np.uint8)
        find("diagonals").build()[0].draw(drawn, None)
        where = drawn.any(axis=2)
        assert np.array_equal(plain[~where], shown[~where])
        colour = np.uint8([[(210, 203, 50)]])
        least = cv2.cvtColor(colour, cv2.COLOR_RGB2GRAY)[0, 0] if gray else colour[0, 0]
        assert (shown[where] == least).all()
    assert where.sum() == 4 * 150


def test_a_seed_decides_the_game_and_its_drawing() -> None:
    def pictures(env: gymnasium.Env, seed: int | None) -> list[bytes]:
        seen = [env.reset(seed=seed)[0].tobytes()]
        return seen + [env.step(1)[0].tobytes() for _ in range(5)]

    one, other = (VariantWrapper(ale(), "random_lines") for _ in range(2))
    assert pictures(one, 7) == pictures(other, 7)
    assert pictures(one, None) == pictures(other, None)  # the seed's second game
    assert pictures(one, 7) != pictures(other, 8)


def test_physics_and_colours_change_inside_the_console() -> None:
    clean, varied = ale(), VariantWrapper(VariantWrapper(ale(), "player_red"), "drift_left")
    for env in (clean, varied):
        env.reset(seed=0)
    for action in (1, *[0] * 12):
        plain, shown = clean.step(action), varied.step(action)
    truth = breakout_objects(clean.unwrapped.ale.getRAM())
    assert shown[4]["objects"].ball.x < truth.ball.x
    paddle = truth.paddle.slices((210, 160))
    assert not np.array_equal(shown[0][paddle], plain[0][paddle])


class Clip:
    """moviepy's clip, as far as RecordVideo knows it: moviepy itself cannot have our pillow."""

    def __init__(self, frames: list[np.ndarray], fps: int) -> None:
        self.frames, self.fps = frames, fps

    def write_videofile(self, path: str, logger: object = None) -> None:
        imageio.mimwrite(path, self.frames, fps=self.fps, codec="libx264rgb", macro_block_size=1)


@pytest.fixture
def moviepy(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules[names[-1]], "ImageSequenceClip", Clip, raising=False)


@pytest.mark.usefixtures("moviepy")
@pytest.mark.parametrize("outside", [True, False])
def test_a_film_of_gymnasium_shows_the_drawing(tmp_path: Path, outside: bool) -> None:
    """Whichever of the two wrappers is the outer one; statistics are counted as ever."""
    env = ale(render_mode="rgb_array", max_num_frames_per_episode=80)
    if outside:
        env = RecordVideo(VariantWrapper(env, "diagonals"), str(tmp_path), disable_logger=True)
    else:
        env = VariantWrapper(RecordVideo(env, str(tmp_path), disable_logger=True), "diagonals")
    env, shown = RecordEpisodeStatistics(env), []
    shown.append(env.reset(seed=0)[0])
    done = False
    while not done:
        picture, _, terminated, truncated, info = env.step(0)
        shown.append(picture)
        done = terminated or truncated
    env.close()
    assert info["episode"]["l"] == len(shown) - 1
    [file] = tmp_path.glob("*.mp4")
    film = np.stack(imageio.mimread(file, memtest=False))
    assert film.shape == (len(shown), 210, 160, 3)
    assert np.abs(film.astype(int) - np.stack(shown)).mean() < 2  # compressed
    line = (np.stack(shown) == np.array([210, 203, 50])).all(-1)  # the colour of the diagonals
    assert line.any()
    assert np.abs(film[line].astype(int) - [210, 203, 50]).mean() < 20


def test_statistics_without_a_video() -> None:
    env = RecordEpisodeStatistics(gymnasium.make("reprl/Breakout-v0", max_frames=200))
    env.reset(seed=0)
    done = False
    while not done:
        *_, terminated, truncated, info = env.step(0)
        done = terminated or truncated
    assert info["episode"]["r"] == info["score"]


def test_the_wrapper_is_part_of_an_environments_spec() -> None:
    env = FrameStackObservation(VariantWrapper(ale(frameskip=4), "diagonals", severity=0.8), 4)
    again = gymnasium.make(env.spec)
    for one in (env, again):
        one.reset(seed=1)
    assert np.array_equal(env.step(1)[0], again.step(1)[0])


def test_sb3_wrappers_see_it_too() -> None:
    clean, varied = ale(frameskip=1), VariantWrapper(ale(frameskip=1), "green_lines")
    pictures = []
    for env in (AtariWrapper(clean), AtariWrapper(varied)):
        pictures.append(env.reset(seed=0)[0])
    assert not np.array_equal(*pictures)


def test_what_cannot_be_shown_is_refused() -> None:
    with refuses("VariantWrapper", "ALE"):
        VariantWrapper(gymnasium.make("CartPole-v1"), "diagonals")
    with refuses("diagonals", "obs_type"):
        VariantWrapper(ale(obs_type="ram"), "diagonals")
    VariantWrapper(ale(obs_type="ram"), "drift_left")
    with refuses("drift_left", "breakout"):
        VariantWrapper(gymnasium.make("ALE/Pong-v5"), "drift_left")
    with refuses("variant", "diagonal", "'diagonals'"):
        VariantWrapper(ale(), "diagonal")
    env = VariantWrapper(ale(), "diagonals")
    with refuses("getScreen", "getScreenRGB"):
        env.unwrapped.ale.getScreen()


class Colours(gymnasium.Env):
    """Pictures in colour of anything but a console."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), float(action == 1), False, False, {}


@pytest.mark.slow
def test_any_image_environment_trains_with_all_extras() -> None:
    env = make_sb3_vec_env(Colours, 2)
    extras = {"attention": "conv_21", "auxiliary": "contrastive", "augmentation": "shift"}
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, n_epochs=1, seed=0, **extras)
    before = {k: v.clone() for k, v in model.policy.features_extractor.state_dict().items()}
    model.learn(16)
    after = model.policy.features_extractor.state_dict()
    assert all(not torch.equal(before[k], after[k]) for k in before if k.endswith("weight"))


@pytest.mark.slow
def test_the_loop_of_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[2] / "examples" / "variant_in_a_loop.py"
    runpy.run_path(str(file), run_name="example")["main"](total_steps=64, steps=16)
    assert "diagonals" in capsys.readouterr().out


def test_its_settings_are_those_of_the_vector_environment() -> None:
    """The game as people write it, and every background: checked in one place for both."""
    env = GameEnv(game="ALE/Pong-v5", background="adaptive", stack=2)
    vector = make_vec_env(n_envs=1, game="Pong", background="adaptive", stack=2, training=False)
    assert env.emulator.settings == vector.settings
    env.close()
    vector.close()
