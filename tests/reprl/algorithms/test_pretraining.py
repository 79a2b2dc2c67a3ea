"""Pretraining: the encoder alone learns, from recorded frames alone, and goes on exactly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from reprl import checkpoint, components
from reprl.algorithms import Pretraining
from reprl.cli import main
from reprl.cli.pretrain import translated
from reprl.envs import make_vec_env
from reprl.recordings.recorder import record
from tests.helpers import Commands, refuses
from tests.runs import same_runs

ENCODER = {"_target_": "reprl.encoders.Nature", "features_dim": 16}
SMALL: dict[str, Any] = {"updates": 2, "batch_size": 16, "seed": 3, "frames": 64}
# those that read reward, returns, truth or the policy
REFUSED = {"value_prediction", "reward_prediction", "drac", "saliency_guided", "object_target"}
REFUSED |= {"decoder", "attention_contrastive", "svea", "ucb_drac"}
COMMAND = [
    *("threads=1", "device=cpu", "progress=off", "env.size=36", "env.stack=2", "env.n_envs=2"),
    *("encoder.features_dim=16", "algo.updates=2", "algo.batch_size=16", "log.every=32"),
    *("checkpoint.every=64", "auxiliary=[spatiotemporal,spr]", "auxiliary.spr.steps=2"),
]


def env(**more: Any) -> Any:
    return make_vec_env(**({"n_envs": 2, "seed": 1, "size": 36, "stack": 2} | more))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "recording"
    return record(env(), place, player="scripted", frames=64, seed=0).path


def pretraining(data: Any, auxiliary: Any = "spatiotemporal", **more: Any) -> Pretraining:
    given: dict[str, Any] = SMALL | {"encoder": ENCODER, "data": str(data)} | more
    return Pretraining("CnnPolicy", env(), auxiliary=auxiliary, **given)


def test_only_encoder_and_losses_move(data: Path) -> None:
    model = pretraining(data)
    before = model.capture().parameters
    model.learn(64)
    assert model.num_timesteps == 64
    for name, tensor in model.capture().parameters.items():
        moved = not torch.equal(tensor, before[name])
        head = name.startswith(("policy.action_net", "policy.value_net"))
        assert moved is not head, name
    logged = model.logger.name_to_value
    assert model._last_obs is None
    assert not any(name.startswith("rollout/") for name in logged)


def test_rewards_and_policy_play_no_part(data: Path, tmp_path: Path) -> None:
    """The same frames with other rewards give the same bits."""
    from reprl.recordings import RecordedPlay, storage

    recording = RecordedPlay.open(data)
    arrays = recording.arrays()
    with storage.Writer(tmp_path / "paid", recording.facts) as writer:
        for t in range(len(arrays["actions"])):
            rows = {name: arrays[name][t] for name in ("frames", "actions", "starts")}
            ends = arrays["ends"][t] * 0
            writer.add(**rows, rewards=arrays["rewards"][t] + 7, ends=ends, finals=[])
    first, second = (pretraining(d).learn(64).capture().parameters for d in (data, writer.final))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_loss_falls_and_the_log_holds_the_diagnostics(data: Path) -> None:
    model = pretraining(data, "reconstruction", instrument_every=1, learning_rate=3e-3)
    numbers: list[dict[str, float]] = []

    class Keep(BaseCallback):
        def _on_rollout_start(self) -> None:
            numbers.append(dict(self.logger.name_to_value))

        def _on_step(self) -> bool:
            return True

    model.learn(32 * 12, callback=Keep(), log_interval=None)
    numbers.append(dict(model.logger.name_to_value))
    key = "loss/reconstruction"
    assert numbers[-1][key] < 0.5 * numbers[1][key]
    assert "gradient/reconstruction_norm" in numbers[-1]
    assert "gradient/rl_norm" not in numbers[-1]
    assert "features/effective_rank" in numbers[-1]
    # heads that nobody trains have no policy to keep: their drift would be an alarm
    assert not any(name.startswith("churn/") for name in numbers[-1])


def test_which_losses_can_pretrain(data: Path) -> None:
    """Each shipped loss either trains without reward or is refused by what it needs."""
    mask = {"_target_": "reprl.encoders.masks.ConvMask"}
    for name in components.names("auxiliary"):
        if name in REFUSED:
            with refuses(name, "which this algorithm does not supply"):
                pretraining(data, name, attention=mask)
        elif name != "none":
            assert pretraining(data, name, attention=mask).losses.weights(0, 1.0)


def test_bad_input(data: Path) -> None:
    with refuses("auxiliary is none", "reprl list auxiliary"):
        pretraining(data, None)
    with refuses("encoder.freeze=true", "nothing to train"):
        pretraining(data, encoder=ENCODER | {"freeze": True})
    with refuses("nothing to learn at frame 32", "begin="):
        spec = components.resolve("auxiliary", "reconstruction") or {}
        pretraining(data, spec | {"begin": 10_000}).learn(64)
    for other, names in (
        ({"size": 44}, ("36 pixels", "env.size=44")),
        ({"game": "pong"}, ("game=breakout", "pong")),
        ({"background": 1.0}, ("env.background=None", "1.0")),
    ):
        given = SMALL | {"encoder": ENCODER, "data": str(data), "auxiliary": "reconstruction"}
        model = Pretraining("CnnPolicy", env(**other), **given)
        with refuses(str(data), *names):
            model.learn(32)
    with refuses("is no recording"):
        pretraining(data.parent).learn(32)


def test_the_words_of_pretraining(data: Path) -> None:
    found = translated(["data=random", "total_frames=9", "frames=5", "seed=1"])
    assert found == [
        *("algo=pretrain", "eval.every=0", "algo.data=random", "total_steps=9"),
        *("algo.frames=5", "seed=1"),
    ]
    found = translated([f"data={data}", "env.variant=green_lines"])
    assert found[2:5] == ["env.game=breakout", "env.size=36", "env.variant='original'"]
    assert found[-1] == "env.variant=green_lines"  # what is given counts


@pytest.mark.slow
def test_pretrain_then_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of docs/pretraining.md, small."""
    monkeypatch.chdir(tmp_path)
    assert main(["record", "player=scripted", "size=36", "frames=64", "n_envs=2", "out=data"]) == 0
    assert "next: reprl pretrain data=data" in capsys.readouterr().out
    run = [*COMMAND, "total_frames=64", "data=data", "run_dir=pre"]
    assert main(["pretrain", *run]) == 0
    assert "next: reprl train parent=pre parent.load=encoder" in capsys.readouterr().out
    small = ["threads=1", "device=cpu", "progress=off", "env.size=36", "env.stack=2"]
    small += ["env.n_envs=2", "encoder.features_dim=16", "algo.n_steps=16", "algo.batch_size=16"]
    small += ["total_steps=32", "eval.every=0", "parent=pre", "parent.load=encoder"]
    assert main(["train", *small, "encoder.freeze=true", "run_dir=rl"]) == 0
    theirs, ours = checkpoint.read("pre").parameters, checkpoint.read("rl").parameters
    for name, tensor in ours.items():
        if name.startswith("policy.features_extractor."):
            assert torch.equal(tensor, theirs[name])
    assert main(["plasticity", "pre", "frames=16", "steps=3"]) == 0
    assert "plasticity" in capsys.readouterr().out
    assert (tmp_path / "pre" / "evaluation" / "plasticity.csv").is_file()
    assert main(["record", "player=rl", "frames=32", "n_envs=2", "out=agents"]) == 0
    refuse = Commands(capsys).refuse
    refuse(["pretrain", *COMMAND, "data=pre", "total_frames=64"], "pre is no recording", "record")
    refuse(["record", "player=rl", "out=agents"], "out=agents is not empty")


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    run = [*COMMAND, "data=random", "frames=64", "total_frames=512"]
    assert main(["pretrain", *run, f"run_dir={tmp_path / 'whole'}"]) == 0
    command = [sys.executable, "-m", "reprl", "pretrain", *run, f"run_dir={tmp_path / 'killed'}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while len(checkpoint.steps(tmp_path / "killed")) < 2 and time.monotonic() < until:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 64 <= checkpoint.steps(tmp_path / "killed")[-1] < 512
    assert main(["resume", str(tmp_path / "killed")]) == 0
    assert same_runs(tmp_path / "whole", tmp_path / "killed")
    first, second = (tmp_path / name / "recording" for name in ("whole", "killed"))
    assert (first / "000000.frames").read_bytes() == (second / "000000.frames").read_bytes()
