"""A sweep's job whose environment worker is killed goes on from its checkpoint, by itself."""

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

from reprl.cli import main
from reprl.sweeps import local, plan
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.process import RETRIES

TINY = [
    *("device=cpu", "progress=off", "threads=1", "env.n_envs=2", "env.workers=1"),
    *("env.max_frames=1000", "algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1"),
    *("encoder.features_dim=16", "total_steps=960", "checkpoint.every=64", "eval.every=0"),
    *("log.every=32", "seed=5"),
]
LOSING = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.yaml").write_text("{}")
(folder / "run.json").write_text(json.dumps({"status": "killed", "reason": "worker 0 died"}))
with open(folder / "starts", "a") as file:
    file.write(sys.argv[2] + "\\n")
sys.exit(1)
"""


def workers_below(pid: int) -> list[int]:
    """The environment workers among the descendants of a process."""
    parents, names = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
            names[int(place.name)] = (place / "cmdline").read_text()
        except OSError:
            continue

    def descends(child: int) -> bool:
        while child in parents and child != pid:
            child = parents[child]
        return child == pid

    return [p for p, name in names.items() if "reprl.envs.worker" in name and descends(p)]


@pytest.mark.slow
def test_a_killed_worker_costs_the_sweep_nothing(tmp_path: Path) -> None:
    sweep, whole = tmp_path / "sweep", tmp_path / "whole"
    command = [sys.executable, "-m", "reprl", "train", "-m", *TINY, f"run_dir={sweep}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not [*sweep.glob("0*/checkpoints/0*")]:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    workers = workers_below(process.pid)
    assert len(workers) == 1
    os.kill(workers[0], signal.SIGKILL)
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 0, output
    assert "died of SIGKILL" in output
    assert "goes on from its checkpoint" in output
    (run,) = sweep.glob("0*")
    assert "resumed" in json.loads((run / "run.json").read_text())
    assert main(["train", *TINY, f"run_dir={whole}"]) == 0
    ours, theirs = (pd.read_csv(f / "metrics.csv") for f in (run, whole))
    columns = [c for c in theirs if not c.startswith("time/")]
    pd.testing.assert_frame_equal(ours[columns], theirs[columns])


def test_a_job_that_always_loses_its_worker_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = local.command

    def command(job: plan.Job, ledger: Ledger, retry: bool) -> list[str] | None:
        todo = real(job, ledger, retry)
        assert todo is not None
        place = ledger.folder / ledger.entries[job.identity].folder
        return [sys.executable, "-c", LOSING, str(place), "resume" if "resume" in todo else "train"]

    monkeypatch.setattr(local, "command", command)
    made = plan.make(["seed=0", f"run_dir={tmp_path / 'sweep'}"], [])
    ledger = Ledger(made.folder)
    ledger.open(made.jobs)
    assert local.Local(made, ledger).run() == 1
    (starts,) = made.folder.glob("*/starts")
    assert starts.read_text().split() == ["train", *["resume"] * RETRIES]
    (entry,) = ledger.entries.values()
    assert (entry.status, entry.reason) == ("killed", "worker 0 died")
