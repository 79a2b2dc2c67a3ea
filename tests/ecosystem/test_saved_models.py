"""Models of scripts on the command line: folders of `checkpoint.save` and SB3's own .zip files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from reprl import checkpoint
from reprl.algorithms import PPO
from reprl.analysis.load import collect
from reprl.cli import main
from reprl.config.schema import load
from reprl.envs import make_vec_env
from reprl.evaluation import evaluate
from tests.helpers import Commands

PLAY = ["variants=original", "episodes=2", "workers=0", "progress=off", "agents=none"]
SMALL = [
    *("env.n_envs=2", "env.max_frames=1000", "algo.n_steps=16", "algo.batch_size=16"),
    *("total_steps=32", "eval.every=0", "progress=off", "threads=1", "algo.learning_rate=1e-9"),
]

pytestmark = pytest.mark.slow  # plays and trains


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two scripts left: ours with a mask and a memory of the picture, and a stock one."""
    folder = tmp_path_factory.mktemp("scripts")
    env = make_vec_env(n_envs=2, size=36, stack=2, background=1.0)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=16, seed=3, attention="conv")
    checkpoint.save(model, folder / "mine")
    env = make_vec_env(n_envs=2, size=36, stack=2)
    stock = stable_baselines3.PPO("CnnPolicy", env, n_steps=8, batch_size=16, seed=4)
    stock.save(folder / "stock.zip")
    return folder


def test_both_are_played_looked_at_and_reported(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    Commands(capsys).refuse(["report", "stock.zip"], "stock.zip", "reprl evaluate")
    assert main(["evaluate", "mine", "stock.zip", *PLAY, "trust=true"]) == 0
    rows = [pd.read_csv(f"{p}/evaluation/episodes.csv") for p in ("mine", "stock")]
    assert [len(frame) for frame in rows] == [2, 2]
    model = checkpoint.load("mine")
    own = evaluate(model, "original", 2)  # which asks the checkpoint what the agent saw
    columns = ["method", "train_seed", "episode_return", "length", "game_seed", "step"]
    assert rows[0][columns].to_dict("list") == own[columns].to_dict("list")
    assert model.observed == {"game": "breakout", "stack": 2, "gap": 1, "size": 36} | {
        "background": 1.0
    }
    said = [set(frame["method"]) for frame in rows]
    assert said == [{"ppo_defaults-nature_background-conv"}, {"sb3-ppo"}]
    assert main(["attention", "mine", "steps=16"]) == 0
    assert Path("mine/attention/original.png").stat().st_size > 1000
    assert main(["report", "mine", "stock.zip", "figures=false", "out=page"]) == 0
    assert "4 games" in capsys.readouterr().out
    gaps = pd.read_csv("page/tables/gap.csv")
    assert {"sb3-ppo", "ppo_defaults-nature_background-conv"} <= set(gaps["method"])
    Commands(capsys).refuse(["evaluate", "mine", "checkpoint=best"], "mine", "best")
    Commands(capsys).refuse(["evaluate", "mine", "checkpoint=12"], "12")


def test_both_begin_a_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    config = load(["parent=mine", *SMALL])
    assert (config.env.size, config.env.stack, config.env.background) == (36, 2, 1.0)
    assert config.attention["_target_"] == "reprl.encoders.masks.ConvMask"
    assert main(["train", "parent=mine", *SMALL, "run_dir=from_mine"]) == 0
    seen = ["env.size=36", "env.stack=2"]
    Commands(capsys).refuse(["train", "parent=stock.zip", *seen, *SMALL], "stock.zip", "trust=true")
    given = ["train", "parent=stock.zip", "trust=true", *SMALL]
    Commands(capsys).refuse(given, "stock.zip", "(32, 2, 8, 8)", "(32, 4, 8, 8)")
    assert main([*given, *seen, "run_dir=from_stock"]) == 0
    said = capsys.readouterr().out
    assert "the policy of stock.zip at step 0 is taken" in said
    stock = stable_baselines3.PPO.load("stock.zip", device="cpu")
    taken = checkpoint.read("from_stock", 0).parameters
    for name, tensor in stock.policy.named_parameters():
        assert torch.equal(taken[f"policy.{name}"], tensor), name


def test_a_stock_model_of_another_game_plays_that_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trained as SB3's users do, on ALE's Freeway: 3 actions, of which Breakout has 4."""
    monkeypatch.chdir(tmp_path)
    small = {"screen_size": 36}
    freeway = VecFrameStack(make_atari_env("ALE/Freeway-v5", n_envs=1, wrapper_kwargs=small), 2)
    stock = stable_baselines3.PPO("CnnPolicy", freeway, n_steps=2, seed=3, device="cpu")
    stock.save("stock.zip")
    said, play = Commands(capsys), ["evaluate", "stock.zip", "trust=true", "episodes=1", *PLAY[2:]]
    said.refuse([*play, "variants=original"], "stock.zip", "Discrete(3)", "breakout", "game=")
    said.refuse([*play, "game=pong"], "stock.zip", "Discrete(3)", "pong has 6 actions")
    assert not Path("stock").exists()
    assert main([*play, "variants=original", "env.game=ALE/Freeway-v5"]) == 0
    rows = pd.read_csv("stock/evaluation/episodes.csv")
    own = evaluate(stock, "original", 1)  # which asks the environment for the game
    columns = ["method", "train_seed", "episode_return", "length", "game_seed"]
    assert rows[columns].to_dict("list") == own[columns].to_dict("list")
    assert set(rows["method"]) == {"freeway-sb3-ppo"}
    said.refuse([*play, "game=skiing"], "stock", "freeway", "skiing", "out=")  # 3 actions too
    assert main(["attention", "stock.zip", "game=freeway", "steps=16", "trust=true"]) == 0
    said.refuse(
        ["probe", "stock.zip", "game=skiing", "out=other", "trust=true"], "objects", "'skiing'"
    )
    found = collect(["stock"])
    assert found.game == "freeway"
    assert set(found.episodes["method"]) == {"freeway-sb3-ppo"}  # and not Breakout's random play
    given = ["train", "parent=stock.zip", "trust=true", "env.size=36", "env.stack=2", *SMALL]
    said.refuse(given, "stock.zip", "Discrete(3)", "breakout", "env.game=")
    assert main([*given, "env.game=freeway", "run_dir=further"]) == 0
    assert main([*given, "parent.load=encoder", "run_dir=encoder"]) == 0  # fits any game
