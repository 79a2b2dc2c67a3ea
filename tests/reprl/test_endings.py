"""How processes end that somebody else stops: a closed terminal, a wandb that hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from reprl import checkpoint

TINY = [
    *("device=cpu", "progress=off", "threads=1", "env.n_envs=2", "env.workers=0"),
    *("env.max_frames=1000", "algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1"),
    *("encoder.features_dim=16", "checkpoint.every=100_000", "eval.every=0", "log.every=32"),
]


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
    command = [sys.executable, "-m", "reprl", *arguments]
    return subprocess.Popen(command, text=True, **options)  # type: ignore[call-overload,no-any-return]


def wait_for_row(run: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not (run / "metrics.csv").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)


@pytest.mark.slow
def test_a_closed_terminal_leaves_a_checkpoint(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def heed() -> None:  # whoever runs the tests may have begun them with nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    process = start("train", *TINY, "total_steps=100_000", f"run_dir={run}", preexec_fn=heed)
    try:
        wait_for_row(run, process)
        process.send_signal(signal.SIGHUP)
        output = process.communicate(timeout=200)[0]
    finally:
        process.kill()
    assert process.returncode == 129, output
    assert "stopped by SIGHUP" in output
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    (step,) = checkpoint.steps(run)
    assert checkpoint.read(run).step == step > 0


@pytest.mark.slow
def test_nohup_still_holds(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start("train", *TINY, "total_steps=640", f"run_dir={run}", preexec_fn=ignore)
    wait_for_row(run, process)
    process.send_signal(signal.SIGHUP)
    output = process.communicate(timeout=200)[0]
    assert process.returncode == 0, output


def services_below(pid: int) -> list[int]:
    """wandb's own processes among the descendants of a process."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text()
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid and "wandb-core" in words:
            found.append(int(place.name))
    return found


@pytest.mark.slow
def test_a_stopped_wandb_does_not_hang_the_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = tmp_path / "said"  # a file: the service holds a pipe open for as long as it is stopped
    stopped: list[int] = []
    with open(said, "w") as file:
        arguments = [*TINY, "total_steps=1600", "wandb=offline", f"run_dir={run}"]
        process = start("train", *arguments, stdout=file)
    try:
        deadline = time.monotonic() + 200
        while not [*run.glob("wandb/offline-run-*/run-*.wandb")]:
            assert time.monotonic() < deadline
            assert process.poll() is None, said.read_text()
            time.sleep(0.05)
        stopped = services_below(process.pid)
        assert stopped
        for service in stopped:
            os.kill(service, signal.SIGSTOP)
        assert process.wait(timeout=500) == 0
    finally:
        for service in stopped:
            os.kill(service, signal.SIGKILL)
        process.kill()
    output = said.read_text()
    assert "WARNING: wandb is lost" in output
    assert "done: " in output
    assert pd.read_csv(run / "metrics.csv")["step"].iloc[-1] == 1600
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
