"""MiniGrid's worlds: its own pictures and rewards, runs like others, life without it."""

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
import torch
from gymnasium import spaces
from minigrid.core.constants import COLORS
from minigrid.minigrid_env import MiniGridEnv

from reprl.algorithms import DQN, PPO
from reprl.algorithms.replay_buffer import bytes_needed
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.views import make_view
from reprl.checkpoint import load as load_agent
from reprl.checkpoint.serialization import decode_space, encode_space
from reprl.cli import main
from reprl.config.schema import load
from reprl.envs import gymnasium_vector, make_vec_env, minigrid_pictures
from reprl.envs.gymnasium_ids import make_single, require_known
from reprl.envs.observation import FrameStack, frame_channels
from tests.helpers import Commands, refuses
from tests.reprl.test_gymnasium_runs import OTHERS, RUN, resumed
from tests.reprl.test_gymnasium_runs import PPO as ONCE
from tests.runs import same_runs

NAME = "gymnasium/MiniGrid-Empty-5x5-v0"
FORWARD, RIGHT = 2, 1


def test_the_goal_is_where_the_agent_sees_it() -> None:
    env = make_single(NAME)
    world: Any = env.unwrapped
    seen, _ = env.reset(seed=3)
    assert isinstance(world, MiniGridEnv)
    assert env.observation_space.shape == (84, 84, 3)
    green = (np.asarray(seen).reshape(7, 12, 7, 12, 3).mean(axis=(1, 3)) @ [-1, 2, -1]) > 100
    assert COLORS["green"].tolist() == [0, 255, 0]
    rows, columns = np.nonzero(green)  # the one green tile; the agent stands at row 6, column 3
    (ahead,), (aside,) = 6 - rows, columns - 3
    away = np.array([3, 3]) - np.array(world.agent_pos)  # the goal is in the corner
    right = np.array([-world.dir_vec[1], world.dir_vec[0]])
    np.testing.assert_array_equal(ahead * world.dir_vec + aside * right, away)


def test_a_game_is_minigrids_own() -> None:
    env = make_vec_env(game=NAME, n_envs=2, seed=5)
    env.queue(0, 17)
    theirs = gymnasium.make("MiniGrid-Empty-5x5-v0")
    theirs.reset(seed=17)
    assert env.reset().shape == (2, 3, 84, 84)
    for action in (FORWARD, FORWARD, RIGHT, FORWARD, FORWARD):
        _, rewards, dones, _ = env.step(np.array([action, -1]))
        _, reward, terminated, truncated, _ = theirs.step(action)
        assert rewards[0] == np.float32(reward)
        assert dones[0] == (terminated or truncated)
    assert rewards[0] > 0.9  # it is there


def test_a_picture_in_colour_is_one_frame() -> None:
    env = make_vec_env(game=NAME, n_envs=2, seed=5)
    space = env.observation_space
    assert isinstance(space, FrameStack)
    assert (env.channels, frame_channels(decode_space(encode_space(space)))) == (3, 3)
    small: dict[str, Any] = {"n_steps": 4, "batch_size": 8, "n_epochs": 1, "seed": 1}
    model = PPO("CnnPolicy", env, **small, intrinsic={"name": "rnd", "width": 8})
    assert model.curiosity is not None
    reward: Any = model.curiosity.reward
    assert (reward.channels, reward.target[0].in_channels) == (3, 3)
    model.learn(8)
    seen = torch.as_tensor(env.reset())
    green = seen.clone()
    green[:, 1] = 255 - green[:, 1]
    assert (reward.rewards(green) != reward.rewards(seen)).all()  # it sees more than blue
    for parts, said in (
        ({"attention": "per_frame"}, "3 channels"),
        ({"attention": "motion"}, "two frames"),
        ({"encoder": {"name": "nature", "input": "differences"}}, "two frames"),
    ):
        with refuses(said):
            PPO("CnnPolicy", env, **small, **parts)


def test_a_replay_buffer_keeps_each_picture_once() -> None:
    env = make_vec_env(game=NAME, n_envs=2, seed=5)
    model = DQN("CnnPolicy", env, buffer_size=4000, learning_starts=9000, seed=1, encoder="nature")
    kept: Any = model.replay()
    model.learn(2040)
    picture = 3 * 84 * 84
    assert kept.stack == 1
    assert kept.frames.shape == (3, 84, 84)
    assert kept.frames.next - 1 <= 2040 + 2 + 1020 / 10  # one a step, and one for each game
    assert picture < kept.row_bytes / 2 < picture + 200
    assert bytes_needed(4000, env.observation_space) == 4000 * (picture + 100)


@pytest.mark.slow
def test_a_run_resumes_exactly_and_is_evaluated(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    parts = ["env.id=MiniGrid-Empty-5x5-v0", "encoder=nature", "attention=conv", "eval.every=0"]
    parts += [
        "auxiliary=contrastive",
        "augmentation=shift",
        "total_steps=96",
        "checkpoint.every=32",
    ]
    assert main(["train", *RUN, *ONCE, *parts, f"run_dir={whole}"]) == 0
    assert same_runs(whole, resumed(whole, tmp_path / "again"))
    assert main(["evaluate", str(whole), "episodes=2", "workers=0", "progress=off"]) == 0
    games = pd.read_csv(whole / "evaluation" / "episodes.csv")
    assert games["method"].unique().tolist() == [
        "minigrid-empty-5x5-v0-ppo-nature-conv-contrastive-shift"
    ]


@pytest.mark.slow
def test_a_run_from_when_colours_counted_as_frames_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replay buffer holds three gray frames where there is one picture."""
    whole, again = tmp_path / "whole", tmp_path / "again"
    parts = ["env.id=MiniGrid-Empty-5x5-v0", "encoder=nature", "algo=dqn", *OTHERS["dqn"]]
    older = spaces.Box(0, 255, (3, 84, 84), np.uint8)
    with monkeypatch.context() as then:
        then.setattr(gymnasium_vector, "spaces_of", lambda name: (older, spaces.Discrete(7)))
        assert main(["train", *RUN, *parts, "eval.every=0", f"run_dir={whole}"]) == 0
    assert same_runs(whole, resumed(whole, again))
    assert frame_channels(load_agent(again).observation_space) == 1
    assert main(["attention", str(again), "steps=48", "method=gradient"]) == 0


@pytest.mark.slow
def test_where_it_looks_is_drawn_on_its_own_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, more in {"masked": ["attention=conv"], "plain": []}.items():
        run = tmp_path / name
        parts = ["env.id=MiniGrid-Empty-5x5-v0", "encoder=nature", "eval.every=0", *more]
        assert main(["train", *RUN, *ONCE, *parts, "total_steps=32", f"run_dir={run}"]) == 0
        assert main(["attention", str(run), "steps=48"]) == 0
        assert (run / "attention" / "original.png").stat().st_size > 1000
        assert (run / "attention" / "original.mp4").stat().st_size > 1000
        assert not (run / "attention" / "scores.csv").exists()
        assert "the objects of this game are not known" in capsys.readouterr().out
    network, images = network_of(load_agent(run)), torch.rand(2, 3, 84, 84)
    assert network.channels == 3
    colours = make_view(network, "gradient").cells(images)
    network.channels = 1
    blue = make_view(network, "gradient").cells(images)
    assert (colours >= blue).all()
    assert (colours > blue).float().mean() > 0.4  # most pixels matter most in red or green
    env = make_vec_env(game=NAME, n_envs=1, seed=5)
    (seen,) = env.reset()
    np.testing.assert_array_equal(env.frame(0), seen.transpose(1, 2, 0))
    refuse = Commands(capsys).refuse
    refuse(["attention", str(run), "variant=green_lines", "steps=48"], "green_lines")


def test_the_experiment_sees_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    config = load(["experiment=minigrid", "device=cpu"])
    assert config.env.game == NAME
    assert config.method == "minigrid-empty-5x5-v0-ppo-nature"
    wrong = ["train", "env=gymnasium", "env.id=MiniGrid-Empty-5x5-v0"]
    Commands(capsys).refuse(wrong, "encoder=mlp takes numbers", "pictures", "encoder=nature")
    wrong += ["encoder=nature", "attention=per_frame"]
    Commands(capsys).refuse(wrong, "per_frame", "gray", "3 channels")


def test_without_minigrid_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        minigrid_pictures.importlib.util,
        "find_spec",
        lambda name, *more: None if name == "minigrid" else found(name, *more),
    )
    with refuses("env.id=BabyAI-Unknown-v0", "pip install 'reprl[minigrid]'"):
        require_known("gymnasium/BabyAI-Unknown-v0")
