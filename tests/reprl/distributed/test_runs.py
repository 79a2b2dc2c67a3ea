"""Whole runs of two ranks: repeated, killed and resumed, over torchrun, with another number."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprl import checkpoint
from reprl.distributed.ranks import OneRank
from reprl.runs.folder import open_run
from reprl.runs.loop import Session
from tests.runs import same_runs

pytestmark = pytest.mark.slow

SMALL = [
    *("threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.max_frames=1000"),
    *("env.size=36", "env.stack=2", "algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1"),
    *("encoder.features_dim=16", "total_steps=160", "checkpoint.every=32", "checkpoint.keep=9"),
    *("log.every=32", "eval.every=0", "attention=gumbel", "auxiliary=contrastive"),
    "attention.resolution=18",
    *("augmentation=shift", "augmentation.use=rad"),
]
LONG = [*SMALL, "total_steps=100_000"]
IMITATION = [
    *("algo=imitation", "algo.updates=2", "algo.buffer_size=96", "algo.n_steps=16"),
    *(word for word in SMALL if not word.startswith(("algo.", "a"))),
    *("algo.batch_size=16",),
]


def reprl(*arguments: str | Path, **options: object) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "reprl", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,  # type: ignore[call-overload]
    )


def done(process: subprocess.Popen[str]) -> str:
    """What a command that ends well has said on stderr."""
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks that was never interrupted."""
    place = tmp_path_factory.mktemp("ranks") / "run"
    done(reprl("train", *SMALL, "ranks=2", f"run_dir={place}"))
    return place


def test_what_is_said_before_the_first_update_needs_no_games(whole: Path) -> None:
    class Two(OneRank):
        size = 2

    folder = open_run(whole)
    model = SimpleNamespace(num_timesteps=3)
    session = Session(folder.config(), folder, model, ranks=Two())  # type: ignore[arg-type]
    session.clocked_step = 3
    assert session._at_work() == "step 3/160 | training"


def ranks_of(launcher: int) -> list[int]:
    """The processes of a launcher, rank 0 first."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(pid) for pid in children]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_killed_rank_ends_the_run_which_goes_on_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = reprl("train", *SMALL, "ranks=2", f"run_dir={run}")
    while len(checkpoint.steps(run)) < 2 and process.poll() is None:
        time.sleep(0.02)
    pids = ranks_of(process.pid)
    if len(pids) == 2:  # else it was too fast for us, and is whole
        os.kill(pids[1], signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        if process.returncode:
            assert "rank 1" in said
            assert "SIGKILL" in said
            assert json.loads((run / "run.json").read_text())["status"] == "killed"
            assert not any(map(is_there, pids))
            done(reprl("resume", run))
    assert same_runs(whole, run)


def test_torchrun_over_two_machines_is_the_same_run(whole: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    run = tmp_path / "run"
    machines = []
    for machine in range(2):
        place = tmp_path / f"machine{machine}"  # the second writes nothing anywhere
        place.mkdir()
        machines.append(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2"),
                    *(f"--node-rank={machine}", "--nproc-per-node=1", "--master-addr=127.0.0.1"),
                    *(f"--master-port={port}", "-m", "reprl", "train", *SMALL, f"run_dir={run}"),
                ],
                env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
                cwd=place,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in machines:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert same_runs(whole, run)
    assert not [*(tmp_path / "machine1").iterdir()]


def test_another_number_of_ranks_is_told_as_a_change(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = reprl("train", *LONG, "ranks=2", f"run_dir={run}")
    while not checkpoint.steps(run) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143, said
    assert said.count("stopped by SIGTERM") == 1
    stopped = checkpoint.steps(run)[-1]
    process = reprl("resume", run, "ranks=1")
    while checkpoint.steps(run)[-1] <= stopped and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143, said
    assert "2 ranks" in said
    assert "goes on with 1" in said
    record = json.loads((run / "run.json").read_text())
    assert record["ranks_changed"] == [{"step": stopped, "from": 2, "to": 1}]


def test_every_rank_of_an_imitation_goes_on_with_its_own_data(tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    done(reprl("train", *IMITATION, "ranks=2", f"run_dir={whole}"))
    process = reprl("train", *IMITATION, "ranks=2", f"run_dir={run}")
    while len(checkpoint.steps(run)) < 2 and process.poll() is None:
        time.sleep(0.02)
    if len(pids := ranks_of(process.pid)) == 2:  # else it was too fast for us, and is whole
        os.kill(pids[1], signal.SIGKILL)
        process.communicate(timeout=60)
        if process.returncode:
            process = reprl("resume", run, "ranks=1")
            _, said = process.communicate(timeout=120)
            assert process.returncode == 2, said
            assert "ranks=2" in said
            done(reprl("resume", run))
    assert same_runs(whole, run)
