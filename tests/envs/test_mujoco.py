"""MuJoCo's Reacher: gymnasium's own numbers, exact state by replay, runs, and life without it."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from reprl.cli import main
from reprl.config.schema import load
from reprl.envs import make_vec_env
from reprl.envs.gymnasium_ids import make_single
from tests.helpers import refuses
from tests.reprl.test_gymnasium_runs import RUN, resumed
from tests.runs import same_runs

NAME = "gymnasium/Reacher-v5"


def made(seed: int = 5) -> Any:
    pytest.importorskip("mujoco")
    return make_vec_env(game=NAME, n_envs=3, seed=seed)


def moves(steps: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (steps, 3, 2)).astype(np.float32)


def test_a_queued_game_is_gymnasiums_own() -> None:
    env = made()
    env.queue(0, 17)
    theirs = gymnasium.make("Reacher-v5")
    np.testing.assert_array_equal(env.reset()[0], theirs.reset(seed=17)[0])
    score = 0.0
    for row in moves(50):
        shown, rewards, dones, infos = env.step(row)
        expected, reward, terminated, truncated, _ = theirs.step(row[0])
        score += float(reward)
        np.testing.assert_array_equal(infos[0].get("terminal_observation", shown[0]), expected)
        assert rewards[0] == np.float32(reward)
        assert dones[0] == (terminated or truncated)
    assert dones[0]
    assert infos[0]["TimeLimit.truncated"]
    assert infos[0]["episode"]["r"] == pytest.approx(score, abs=1e-5)


def test_games_in_progress_go_on_bit_for_bit() -> None:
    env, actions = made(), moves(130)
    env.reset()
    for row in actions[:70]:  # into the second games
        env.step(row)
    snapshot, expected = env.snapshot(), [env.step(row)[:3] for row in actions[70:]]
    other = made(seed=99)
    other.restore(snapshot)
    assert not other.lost
    for row, before in zip(actions[70:], expected, strict=True):
        for a, b in zip(before, other.step(row)[:3], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_runs_resume_exactly_and_are_evaluated(algo: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    whole = tmp_path / "whole"
    small = ["algo.buffer_size=100", "algo.learning_starts=16", "algo.batch_size=8"]
    small += ["algo.gradient_steps=1", "encoder.hidden=[8]", "eval.every=0"]
    settings = [*RUN, "env.id=Reacher-v5", f"algo={algo}", *small]
    assert main(["train", *settings, f"run_dir={whole}"]) == 0
    assert same_runs(whole, resumed(whole, tmp_path / "again"))
    assert main(["evaluate", str(whole), "episodes=2", "workers=0", "progress=off"]) == 0
    assert "reacher-v5" in (whole / "evaluation" / "episodes.csv").read_text()


def test_the_experiment_has_twenty_arms() -> None:
    pytest.importorskip("mujoco")
    config = load(["experiment=reacher", "device=cpu"])
    assert config.env.game == NAME
    assert config.env.n_envs == 20
    assert config.method == "reacher-v5-sac-mlp_256"


def test_without_mujoco_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as where it is not installed
    for name in [n for n in sys.modules if n.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    with refuses("env.id=Reacher-v5", "pip install 'reprl[mujoco]'"):
        make_single(NAME)
