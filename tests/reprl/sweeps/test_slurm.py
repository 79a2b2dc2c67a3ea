"""Sweeps through submitit's local executor: preemption, requeue, stops, and no job done twice.

Everything is real but the queue: submitit's own job processes, signals, requeue and trainings. Of
SLURM itself there is no controller here.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprl import checkpoint
from reprl.cli import main
from reprl.sweeps import plan
from reprl.sweeps.cluster import launcher as cluster_launcher
from tests.helpers import refuses
from tests.runs import SMALL

TINY = [
    *[setting for setting in SMALL if "threads" not in setting and "progress" not in setting],
    "algo.n_epochs=1",
    "total_steps=1600",
    "checkpoint.every=100_000",  # only the last, and where a signal comes
    "log.every=64",
    "eval.every=0",
]
ON_SUBMITIT = "hydra/launcher=submitit_local"


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reprl", "train", *TINY, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output = process.communicate(timeout=900)[0]
    return process.returncode, output


def wait_for(found, what: str, seconds: float = 600.0):
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"no {what} within {seconds:g} s"
        time.sleep(0.1)
    return value


def at_work(sweep: Path, count: int) -> list[Path]:
    """Run folders whose training has written a row."""
    rows = [f for f in sweep.glob("0*/metrics.csv") if len(f.read_text().splitlines()) > 1]
    return sorted(f.parent for f in rows) if len(rows) >= count else []


def record(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())


def attempts(sweep: Path, run: Path) -> list[dict]:
    """What the job's processes noted: where each began and ended."""
    identity = run.name.rpartition("_")[2]
    lines = (sweep / ".claims" / f"{identity}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def same(a: Path, b: Path) -> bool:
    first, second = (run / "checkpoints" / "000000001600" for run in (a, b))
    return all((first / f).read_bytes() == (second / f).read_bytes() for f in checkpoint.FILES)


@pytest.mark.slow
def test_a_preempted_job_is_requeued_and_continues_while_another_launcher_keeps_off(tmp_path):
    sweep = tmp_path / "a sweep"
    arguments = ["-m", "seed=0,1", f"run_dir={sweep}", "sweep.jobs=2"]
    first = start(*arguments, ON_SUBMITIT)
    preempted, other = wait_for(lambda: at_work(sweep, 2), "training")
    job = parent_of(record(preempted)["pid"])
    os.kill(job, signal.SIGUSR2)  # what SLURM sends before it takes a node away
    # between its end and its new beginning the job is free, and another launcher may have it
    wait_for(lambda: len(attempts(sweep, preempted)) > 2, "requeued")
    code, output = finish(start(*arguments))  # the same sweep, on this machine's own launcher
    assert code == 1, output
    assert "elsewhere" in output
    code, output = finish(first)
    assert code == 0, output
    assert output.count("finished") >= 4  # a line and a row a job
    before, stopped, again, done = attempts(sweep, preempted)
    assert (before["step"], stopped["status"]) == (0, "interrupted")
    assert 0 < stopped["step"] == again["step"] < done["step"] == 1600  # no step done twice
    assert [n["step"] for n in attempts(sweep, other)] == [0, 1600]
    assert record(preempted)["job"].startswith("submitit ")
    code, output = finish(start(*arguments, ON_SUBMITIT))  # all is done: nothing starts
    assert code == 0, output
    assert len(attempts(sweep, preempted)) == 4
    straight = tmp_path / "straight"
    alone = ["seed=0", "threads=1", "env.workers=0", "progress=off", f"run_dir={straight}"]
    assert main(["train", *TINY, *alone]) == 0
    assert same(preempted, straight)


@pytest.mark.slow
def test_sigterm_to_the_sweep_and_the_death_of_a_job_leave_runs_that_go_on(tmp_path):
    sweep = tmp_path / "sweep"
    arguments = ["-m", "seed=0,1", f"run_dir={sweep}", "sweep.jobs=2", ON_SUBMITIT]
    process = start(*arguments)
    killed, stopped = wait_for(lambda: at_work(sweep, 2), "training")
    training = record(killed)["pid"]
    os.kill(parent_of(training), signal.SIGKILL)  # the node's process, not the training's
    wait_for(lambda: record(killed)["status"] == "interrupted", "checkpoint of the orphan")
    process.terminate()
    code, output = finish(process)
    assert code == 143, output
    assert record(stopped)["status"] == "interrupted"
    assert "2 interrupted" in output
    code, output = finish(start(*arguments))
    assert code == 0, output
    for run in (killed, stopped):
        began, done = attempts(sweep, run)[-2:]
        assert 0 < began["step"] == min(checkpoint.steps(run)) < done["step"] == 1600


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["hydra/launcher=rey"], ["hydra/launcher=rey", "'ray'"]),
        (["hydra/launcher=jobslib"], ["hydra/launcher=jobslib", "'joblib'"]),
        (["hydra/launcher=ray,submitit_local"], ["one launcher"]),
        (["hydra.launcher.partition=gpu"], ["hydra/launcher="]),
        (["hydra/launcher=submitit_slurm"], ["sbatch"]),
        ([ON_SUBMITIT, "hydra.launcher.timout_min=3"], ["'hydra.launcher.timeout_min'"]),
        ([ON_SUBMITIT, "hydra.launcher.timeout_min=soon"], ["'hydra.launcher.timeout_min=soon'"]),
    ],
)
def test_a_launcher_that_cannot_be_used_is_one_sentence(overrides, names, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with refuses(*names):
        cluster_launcher.choose(plan.make(["seed=0,1", *overrides], []))


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(cluster_launcher.importlib.util, "find_spec", lambda name: None)
    with refuses("reprl[ray]"):
        cluster_launcher.choose(plan.make(["seed=0", "hydra/launcher=ray"], []))


def test_what_slurm_is_told_follows_from_the_jobs_unless_it_is_said(monkeypatch, tmp_path):
    (tmp_path / "sbatch").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    slurm = "hydra/launcher=submitit_slurm"
    made = plan.make(["seed=0,1", "threads=2", "env.workers=3", "sweep.jobs=7", slurm], [])
    told = cluster_launcher.choose(made).overrides
    assert {
        "++hydra.launcher.cpus_per_task=5",
        "++hydra.launcher.max_num_timeout=100",
        "hydra.launcher.array_parallelism=7",
    } <= set(told)
    said = [slurm, "hydra.launcher.cpus_per_task=9", "device=cuda"]
    made = plan.make(["seed=0", *said], [])  # whether there is a GPU is seen where it runs
    assert made.jobs[0].config.device == "cuda"
    told = cluster_launcher.choose(made).overrides
    assert [o for o in told if "cpus" in o] == ["hydra.launcher.cpus_per_task=9"]
    assert "++hydra.launcher.gpus_per_node=1" in told
