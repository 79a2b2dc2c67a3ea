"""SIGKILL at any moment, also inside a checkpoint write, and the run still ends the same."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprl import checkpoint
from reprl.cli import main
from tests.runs import same_runs

COMMON = [
    "threads=1",
    "device=cpu",
    "progress=off",
    "env.workers=2",
    "env.max_frames=1000",
    "env.size=36",
    "encoder.features_dim=32",
    "auxiliary=contrastive",  # with a momentum encoder
    "augmentation=shift",
    "eval.episodes=1",
    "eval.variants=[original]",
    "algo.learning_rate={kind:linear,start:3e-4,end:0}",
]
VALUE = "algo.vf_coef={kind:linear,start:0.5,end:0.1}"
ENTROPY = "algo.ent_coef={kind:linear,start:0.02,end:0.001}"
PPO = [ENTROPY, VALUE, "env.n_envs=4", "algo.n_steps=8", "algo.batch_size=16", "algo.n_epochs=2"]
A2C = [ENTROPY, VALUE, "algo=a2c", "env.n_envs=4", "algo.n_steps=8"]
IMITATION = [VALUE, "algo=imitation", "env.n_envs=4", "algo.n_steps=8", "algo.batch_size=16"]
IMITATION += ["algo.updates=2", "algo.buffer_size=320", "algo.expert.skill=0.9"]
PPG = [*PPO, "algo=ppg", "algo.n_policy_phases=4", "algo.auxiliary_epochs=2"]  # killed in a cycle
PPG += ["algo.auxiliary_batch_size=32", "attention=conv"]
DQN = ["algo=dqn", "env.n_envs=2", "algo.learning_starts=32", "algo.batch_size=16"]
DQN += ["algo.buffer_size=160", "algo.target_update_interval=96", "algo.prioritized=true"]
DQN += [
    "algo.n_steps=3",
    "algo.double=true",
    "algo.instrument_every=5",
]  # whose buffer wraps before the first kill
SAC = ["algo=sac", "env.continuous=true", "env.n_envs=2", "algo.learning_starts=32"]
SAC += ["algo.batch_size=16", "algo.buffer_size=160", "algo.train_freq=4", "algo.noise=ou"]
SAC += ["algo.gradient_steps=1", "algo.share_encoder=true"]
RECURRENT = [*PPO, "algo=recurrent_ppo", "algo.lstm_size=16"]
SCHEDULE = ["total_steps=640", "checkpoint.every=192", "eval.every=320", "log.every=96"]

# Dies by its own SIGKILL at the n-th file of a checkpoint: the folder is half written then.
DIE_INSIDE_A_WRITE = """
import os, signal, sys
from reprl.checkpoint import storage
from reprl.cli import main
write, count = storage._write, [0]
def die(path, data):
    count[0] += 1
    if count[0] == int(sys.argv[1]):
        path.write_bytes(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(path, data)
storage._write = die
sys.exit(main(sys.argv[2:]))
"""


def reprl(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "reprl", *arguments])


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not path.exists():
        assert process.poll() is None, "the run ended too early"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [PPO, A2C, IMITATION, PPG, DQN, SAC, RECURRENT],
    ids=["ppo", "a2c", "imitation", "ppg", "dqn", "sac", "recurrent_ppo"],
)
def test_a_killed_run_ends_like_one_never_interrupted(settings: list[str], tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = [*COMMON, *settings, *SCHEDULE]
    assert main(["train", *arguments, f"run_dir={whole}"]) == 0

    chance = random.Random(os.urandom(8))
    inside = str(chance.randint(6, 9))  # in the second checkpoint of this process
    code = [sys.executable, "-c", DIE_INSIDE_A_WRITE, inside]
    first = subprocess.run([*code, "train", *arguments, f"run_dir={killed}"], check=False)
    assert first.returncode == -signal.SIGKILL
    assert checkpoint.steps(killed) == [192]
    assert list((killed / "checkpoints").glob(".*")), "it died inside a checkpoint write"

    for step in (320, 384) if settings is PPO else (320,):  # the first is the best on validation
        process = reprl("resume", str(killed))
        wait_for(killed / "checkpoints" / f"{step:012d}", process)
        kill_after(process, chance.uniform(0.0, 0.5))
    assert main(["resume", str(killed)]) == 0
    assert same_runs(killed, whole)


@pytest.mark.slow
def test_a_killed_run_of_compiled_code_ends_the_same(tmp_path: Path) -> None:
    """Every process compiles for itself."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = [*COMMON, *PPO, "mode=fast", "env.workers=0", "eval.every=0", "log.every=96"]
    arguments += ["total_steps=384", "checkpoint.every=128"]
    assert main(["train", *arguments, f"run_dir={whole}"]) == 0
    code = [sys.executable, "-c", DIE_INSIDE_A_WRITE, "7"]
    first = subprocess.run([*code, "train", *arguments, f"run_dir={killed}"], check=False)
    assert first.returncode == -signal.SIGKILL
    assert checkpoint.steps(killed) == [128]
    assert checkpoint.read(killed).meta["compiled"] is True
    assert reprl("resume", str(killed)).wait() == 0
    assert same_runs(killed, whole)
