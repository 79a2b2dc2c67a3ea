"""A branch of an off-policy run: with its replay buffer where that fits, else with weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reprl import checkpoint
from reprl.algorithms import DQN
from reprl.cli import main
from reprl.envs import make_vec_env
from tests.helpers import refuses
from tests.reprl.test_gymnasium_runs import OTHERS, RUN

LONG = ["total_steps=256", "eval.every=0"]


def begun(place: Path, algo: str, *more: str) -> Path:
    """A run whose replay buffer of 50 rows has wrapped."""
    settings = [*RUN, f"algo={algo}", *OTHERS[algo], "eval.every=0", *more]
    assert main(["train", *settings, f"run_dir={place}"]) == 0
    return place


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("parents")
    plain = {"sac": ["algo.noise=none"]}
    return {algo: begun(place / algo, algo, *plain.get(algo, [])) for algo in ("dqn", "sac")}


def branch(parent: Path, *words: str) -> Path:
    child = parent.parent / "-".join([parent.name, *words]).replace("=", "-")
    assert main(["train", f"parent={parent}", *LONG, *words, f"run_dir={child}"]) == 0
    assert json.loads((child / "run.json").read_text())["status"] == "finished"
    return child


@pytest.mark.slow
@pytest.mark.parametrize("prioritized", ["false", "true"])
@pytest.mark.parametrize("size", [60, 110, 400])
def test_a_buffer_of_another_size_begins_empty(
    size: int, prioritized: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a larger one the parent's rows would lie among rows that nobody has filled."""
    parent = begun(tmp_path / "parent", "dqn", f"algo.prioritized={prioritized}")
    capsys.readouterr()
    child = branch(parent, f"algo.buffer_size={size}")
    assert "not the same course (algo.buffer_size), so only the weights" in capsys.readouterr().out
    first = checkpoint.read(child, 0)
    assert first.meta["replay"]["added"] == 0
    theirs = checkpoint.read(parent).parameters
    assert all((first.parameters[name] == theirs[name]).all() for name in theirs)


@pytest.mark.slow
def test_the_same_size_goes_on_with_the_parents_rows(parents: Any) -> None:
    child = branch(parents["dqn"], "algo.buffer_size=100", "algo.gamma=0.9")
    assert checkpoint.steps(child)[0] == 192
    assert checkpoint.read(child, 192).meta["replay"]["added"] == 96


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "word"),
    [
        ("dqn", "algo.prioritized=true"),
        ("dqn", "algo.double=true"),
        ("sac", "algo.noise=normal"),
        ("sac", "algo.noise=ou"),
    ],
)
def test_an_option_is_switched_on_and_the_run_goes_on(algo: str, word: str, parents: Any) -> None:
    child = branch(parents[algo], word)
    assert checkpoint.steps(child)[0] == 192
    assert checkpoint.steps(child)[-1] == 256
    first = checkpoint.read(child, 192)
    assert first.meta["replay"]["added"] == 96
    if "prioritized" in word:  # all rows that were kept are as good as new, and there is no other
        assert not first.state["memory.priorities"].any()
        last = checkpoint.read(child).state
        assert (last["memory.priorities"].numpy() > 0).sum() == 100
    if "noise" in word:
        assert "stream.noise" in first.state


@pytest.mark.slow
def test_an_option_with_layers_of_its_own_is_refused(
    parents: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"dqn": ("algo.dueling=true", "q_net"), "sac": ("algo.ent_coef=0.1", "temperature")}
    for algo, (word, name) in words.items():
        capsys.readouterr()
        place = parents[algo].parent / f"no-{algo}"
        arguments = [f"parent={parents[algo]}", *LONG, word, f"run_dir={place}"]
        assert main(["train", *arguments]) == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert name in said
        assert "ours" not in said


def test_a_model_of_another_size_takes_no_captured_rows() -> None:
    def made(size: int) -> DQN:
        env: Any = make_vec_env(game="gymnasium/CartPole-v1", n_envs=2, seed=3)
        return DQN("MlpPolicy", env, buffer_size=size, learning_starts=900, device="cpu", seed=1)

    captured = made(40).learn(60).capture()
    for size in (30, 80):
        with refuses(f"algo.buffer_size={size}", "algo.buffer_size=40"):
            made(size).restore(captured)
    again = made(40)
    again.restore(captured)
    assert again.replay_buffer is not None
    assert np.abs(again.replay_buffer.observations).max(axis=-1).all()  # every row was filled
