"""What a sweep gets out of the cores, and what its launcher costs.

`python -m benchmarks.sweep [--quick]`. Total steps/s of 1, 2 and 4 single-thread jobs at once
against one job with two threads, all started by `reprl train -m`; only the time in which every job
is past its compilation counts. The launcher's overhead is measured on jobs that do nearly nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import load_warning, machine, middle, table

ENVS = 8
POLL = 0.05
History = list[tuple[float, int]]  # (moment, steps done by then)
CONTENDERS = {
    "one job, two threads, two workers": {"jobs": 1, "threads": 2, "workers": 2},
    "one single-thread job": {"jobs": 1, "threads": 1, "workers": 0},
    "two single-thread jobs": {"jobs": 2, "threads": 1, "workers": 0},
    "four single-thread jobs": {"jobs": 4, "threads": 1, "workers": 0},
}
NOTHING = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
(folder / "config.yaml").write_text("{}")
(folder / "run.json").write_text(json.dumps({"status": "finished"}))
"""


def common_rate(histories: list[History]) -> float:
    """Total steps/s over the time in which all jobs were at work."""
    begin = max(history[0][0] for history in histories)
    end = min(history[-1][0] for history in histories)
    if end <= begin:
        raise SystemExit("the jobs were never at work at the same time: give them more updates")
    steps = [
        np.diff(np.interp([begin, end], [t for t, _ in history], [s for _, s in history]))[0]
        for history in histories
    ]
    return float(sum(steps) / (end - begin))


def look(folder: Path, histories: dict[Path, History], rollout: int, moment: float) -> None:
    """Note, for each run of a sweep, when the rows of its metrics.csv appeared."""
    for file in folder.glob("*/metrics.csv"):
        rows = file.read_bytes().count(b"\n") - 1  # without the header
        history = histories.setdefault(file, [])
        if rows > (history[-1][1] // rollout if history else 0):
            history.append((moment, rows * rollout))


def measure(
    *, jobs: int, threads: int, workers: int, n_steps: int, updates: int
) -> tuple[float, float]:
    """Total steps/s of a real sweep, and the seconds to its first row, compilation included."""
    rollout = ENVS * n_steps  # one update, which is one row of metrics.csv
    total = rollout * (1 + updates)  # the first update compiles and does not count
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "sweep"
        command = [sys.executable, "-m", "reprl", "train", "-m", f"seed=range({jobs})"]
        command += ["mode=fast", f"threads={threads}", f"env.workers={workers}"]
        command += [f"env.n_envs={ENVS}", f"algo.n_steps={n_steps}", "eval.every=0"]
        command += [f"total_steps={total}", f"log.every={rollout}"]
        command += [f"checkpoint.every={total}", f"sweep.jobs={jobs}", f"run_dir={folder}"]
        began = time.monotonic()
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        histories: dict[Path, History] = {}
        try:
            while process.poll() is None:
                look(folder, histories, rollout, time.monotonic())
                time.sleep(POLL)
        finally:
            process.terminate()
            out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"a measured sweep failed:\n{out}")
    rate = common_rate(list(histories.values()))
    return rate, max(history[0][0] for history in histories.values()) - began


def overhead(jobs: int) -> tuple[float, float]:
    """Seconds the launcher adds to each job, and seconds it takes to plan all, on empty jobs."""
    from reprl.sweeps import local, plan
    from reprl.sweeps.ledger import Ledger

    def nothing(folder: Path) -> list[str]:
        return [sys.executable, "-c", NOTHING, str(folder)]

    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        overrides = [f"seed=range({jobs})", "sweep.jobs=1", f"run_dir={place}/sweep"]
        made = plan.make(overrides, [])
        planned = time.perf_counter() - began
        real = local.command

        def command(job: plan.Job, ledger: Ledger, retry: bool) -> list[str]:
            return nothing(ledger.folder / job.name)

        ledger = Ledger(made.folder)
        ledger.open(made.jobs)
        local.command = command
        try:
            began = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                code = local.Local(made, ledger).run()
            launched = time.perf_counter() - began
        finally:
            local.command = real
        if code:
            raise SystemExit("a job that does nothing failed")
        began = time.perf_counter()
        for number in range(jobs):
            subprocess.run(nothing(Path(place) / "hand" / str(number)), check=True)
        by_hand = time.perf_counter() - began
    return (launched - by_hand) / jobs, planned


def rows_of(found: dict[str, list[tuple[float, float]]]) -> list[list[str]]:
    """A row a contender: total and per-job steps/s, ratio to the two-thread job, warm-up."""
    reference = middle([rate for rate, _ in found[next(iter(CONTENDERS))]])
    rows = []
    for name, measured in found.items():
        rate = middle([rate for rate, _ in measured])
        warm = middle([warm for _, warm in measured])
        each = rate / CONTENDERS[name]["jobs"]
        rows.append(
            [name, f"{rate:,.0f}", f"{each:,.0f}", f"{rate / reference:.2f}", f"{warm:.0f} s"]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: under 3 minutes")
    quick = parser.parse_args().quick
    warning = load_warning()
    length = {"n_steps": 64, "updates": 3} if quick else {"n_steps": 128, "updates": 10}
    empty = 10 if quick else 50
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
    for round_ in range(1 if quick else 3):
        for name, settings in CONTENDERS.items():
            found[name].append(measure(**settings, **length))
            rate, warm = found[name][-1]
            print(f"  round {round_ + 1}: {name}: {rate:,.0f} steps/s, first update {warm:.0f} s")
    added, planned = overhead(empty)
    print(f"\n{machine()} {warning}\n")
    what = f"PPO, fast, {ENVS} envs x {length['n_steps']}"
    header = [what, "total steps/s", "a job", "against two threads", "to the first update"]
    print(table(header, rows_of(found)))
    print(f"\nThe launcher adds {added:.2f} s to a job; it planned {empty} in {planned:.1f} s.")


if __name__ == "__main__":
    main()
