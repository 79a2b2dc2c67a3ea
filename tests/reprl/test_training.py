"""Training runs on real Breakout, small: exact resume, branching, failures, what a folder holds."""

import json
import os
import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest
import stable_baselines3
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from reprl import checkpoint
from reprl.algorithms import Diverged
from reprl.algorithms.on_policy import OnPolicy
from reprl.cli import main
from reprl.envs import make_vec_env
from reprl.export import copy_to_sb3, load_module
from reprl.runs.folder import open_run
from reprl.runs.loop import Session
from tests.helpers import Commands
from tests.runs import LAST, TINY, same_runs, train

pytestmark = pytest.mark.slow  # trains


@pytest.fixture
def signal_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Send this process a signal in the middle of update number `update`."""
    plan = {"update": 3, "number": signal.SIGTERM}
    original, count = Session.take_numbers, [0]

    def take(session: Session) -> None:
        count[0] += 1
        if count[0] == plan["update"]:
            os.kill(os.getpid(), plan["number"])
        original(session)

    monkeypatch.setattr(Session, "take_numbers", take)
    return plan


def test_a_run_folder_is_self_contained(whole: Path) -> None:
    record = json.loads((whole / "run.json").read_text())
    assert record["status"] == "finished"
    assert record["config_hash"] == open_run(whole).config().hash
    assert record["versions"]["torch"] == torch.__version__
    assert record["command"][:2] == ["reprl", "train"]
    metrics = pd.read_csv(whole / "metrics.csv")
    assert metrics["step"].tolist() == [64, 96, 160, 192]  # rollouts of 32 crossing 48s and 96s
    assert {"train/loss", "rollout/score", "time/elapsed", "validation/score"} <= set(metrics)
    assert checkpoint.steps(whole)[-1] == 192
    assert record["best"]["step"] in checkpoint.steps(whole)
    games = pd.read_csv(whole / "evaluation" / "validation.csv")
    assert games.groupby("step")["episode_return"].mean().max() == record["best"]["score"]
    assert main(["verify", str(whole)]) == 0


def test_validation_does_not_touch_training(whole: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "run", "eval.every=0") == 0
    for file in ("parameters.safetensors", "optimizer.safetensors", "state.safetensors"):
        ours = tmp_path / "run" / "checkpoints" / LAST / file
        assert ours.read_bytes() == (whole / "checkpoints" / LAST / file).read_bytes()


@pytest.mark.parametrize(
    ("number", "update", "code"),
    [(signal.SIGTERM, 1, 143), (signal.SIGINT, 4, 130), (signal.SIGUSR2, 3, 143)],
)
def test_a_signal_leaves_a_run_that_resumes_exactly_even_when_moved(
    whole: Path, tmp_path: Path, signal_at: dict[str, int], number: int, update: int, code: int
) -> None:
    signal_at.update(number=number, update=update)
    assert train(tmp_path / "run") == code
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "interrupted"
    assert signal.Signals(number).name in record["reason"]
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert main(["resume", str(tmp_path / "moved")]) == 0
    assert same_runs(tmp_path / "moved", whole)


def test_what_lies_beyond_the_checkpoint_is_written_once(whole: Path, tmp_path: Path) -> None:
    # as after a SIGKILL between two checkpoints: rows and events go further than the state
    place = tmp_path / "run"
    shutil.copytree(whole, place)
    shutil.rmtree(place / "checkpoints" / LAST)
    assert checkpoint.steps(place)[-1] < 192
    with open(place / "metrics.csv", "a") as file:
        file.write("999,0.1,")  # a line cut short
    open_run(place).update(status="running")
    assert open_run(place).status() == "killed"
    assert main(["resume", str(place)]) == 0
    assert same_runs(place, whole)
    events = EventAccumulator(str(place / "tensorboard"), purge_orphaned_data=False)
    events.Reload()
    assert [e.step for e in events.Scalars("train/loss")] == [64, 96, 160, 192]


def test_a_damaged_newest_checkpoint_costs_only_itself(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    shutil.copytree(whole, place)
    (place / "checkpoints" / LAST / "optimizer.safetensors").write_bytes(b"damaged")
    open_run(place).update(status="interrupted")
    assert main(["verify", str(place)]) == 1
    assert "DAMAGED: optimizer.safetensors" in capsys.readouterr().out
    assert main(["resume", str(place)]) == 0
    assert "WARNING: checkpoint" in capsys.readouterr().err
    assert same_runs(place, whole)


def test_a_branch_with_the_parents_settings_goes_the_same_way(whole: Path, tmp_path: Path) -> None:
    middle = checkpoint.steps(whole)[-2]
    assert train(tmp_path / "run", f"parent={whole}@{middle}") == 0
    for file in ("parameters.safetensors", "optimizer.safetensors"):
        ours = tmp_path / "run" / "checkpoints" / LAST / file
        assert ours.read_bytes() == (whole / "checkpoints" / LAST / file).read_bytes()
    assert pd.read_csv(tmp_path / "run" / "metrics.csv")["step"].min() > middle


def test_a_branch_into_another_variant_begins_with_the_weights(whole: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    more = ["env.variant=green_lines", "total_steps=32", "eval.every=0", "algo.learning_rate=1e-9"]
    assert train(place, f"parent={whole}", *more) == 0
    ours, theirs = checkpoint.read(place), checkpoint.read(whole)
    assert ours.step == 32
    for name, tensor in theirs.parameters.items():
        torch.testing.assert_close(ours.parameters[name], tensor, rtol=0, atol=1e-6)


def test_another_architecture_is_refused_by_name(
    whole: Path, tmp_path: Path, commands: Commands
) -> None:
    child = ["train", *TINY, f"run_dir={tmp_path / 'run'}"]
    commands.refuse([*child, f"parent={whole}", "encoder.features_dim=8"], "(16,", "(8,")
    commands.refuse([*child, f"parent={whole}@12"], "12", "192")
    assert not (tmp_path / "run").exists()


def test_a_divergence_is_a_failed_run_with_a_checkpoint_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = OnPolicy.train

    def diverge(agent: OnPolicy) -> None:
        if agent.num_timesteps > 64:
            raise Diverged("value", float("nan"), agent.num_timesteps)
        original(agent)

    monkeypatch.setattr(OnPolicy, "train", diverge)
    assert train(tmp_path / "run", "eval.every=0") == 1
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "failed"
    assert all(word in record["reason"] for word in ("diverged", "'value'", "nan", "96"))
    assert f"parent={tmp_path / 'run'}@64" in capsys.readouterr().err


def test_a_folder_has_one_writer(whole: Path, commands: Commands) -> None:
    with open_run(whole).lock():
        commands.refuse(["resume", str(whole)], str(whole), "another process")
    assert main(["resume", str(whole)]) == 0  # finished: nothing to do


def test_weights_leave_as_a_torch_module_and_into_stock_sb3(whole: Path) -> None:
    module = load_module(whole)
    images = torch.randint(256, (3, 4, 84, 84), dtype=torch.uint8)
    logits, values = module(images)
    assert logits.shape == (3, 4)
    assert values.shape == (3,)
    env = make_vec_env(n_envs=1)
    arguments = {"features_extractor_kwargs": {"features_dim": 16}}
    stock = stable_baselines3.PPO("CnnPolicy", env, n_steps=8, policy_kwargs=arguments)
    copy_to_sb3(whole, stock)
    distribution = stock.policy.get_distribution(images)
    torch.testing.assert_close(distribution.distribution.logits, logits, rtol=0, atol=0)
    torch.testing.assert_close(
        stock.policy.predict_values(images).flatten(), values, rtol=0, atol=0
    )


def test_launch_shows_what_differs_from_the_run_before(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, tmp_path / "before")
    more = ["progress=auto", "total_steps=32", "eval.every=0", "algo.gamma=0.98"]
    assert train(tmp_path / "now", *more) == 0
    page = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["against", "before"] in page
    assert ["algo.gamma", "0.99", "0.98"] in page
    assert ["total_steps", "192", "32"] in page
    assert not any(row[:1] == ["progress"] for row in page)  # changes nothing that is computed
    assert any(row[:2] == ["step", "32/32"] for row in page)  # and plain lines, as no terminal


def test_small_commands_read_run_folders(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], commands: Commands
) -> None:
    other = tmp_path / "other"
    shutil.copytree(whole, other)
    text = (other / "config.yaml").read_text().replace("seed: 0", "seed: 7")
    (other / "config.yaml").write_text(text)
    assert main(["diff", str(whole), str(other)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["seed", "0", "7"]
    assert main(["runs", str(tmp_path)]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:6] == ["run", "started", "status", "steps", "score", "gap"]
    assert "finished" in row
    assert main(["verify", str(other)]) == 1
    assert "CHANGED" in capsys.readouterr().out
    commands.refuse(["verify", str(tmp_path)], str(tmp_path))
