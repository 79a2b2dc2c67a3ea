"""The local launcher: one process a job, as many at once as there are cores, each on its own.

A job that raises, is killed or runs out of memory costs only itself; Ctrl-C and SIGTERM let every
job write its checkpoint, and the same command goes on from there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from reprl.sweeps.ledger import RESUMABLE, Ledger
from reprl.sweeps.plan import Job, Plan
from reprl.sweeps.view import View

GRACE = 60.0  # seconds a job has to write its checkpoint when it is told to stop
POLL = 0.2


@dataclass
class Running:
    """A job at work."""

    job: Job
    process: subprocess.Popen[bytes]
    claim: IO[str]
    began: float
    limit: float | None
    stopped: float | None = None  # when it was told to stop
    timed_out: bool = False


def command(job: Job, ledger: Ledger, retry: bool) -> list[str] | None:
    """What to start for a job, from the state of its folder; None if there is nothing to do."""
    entry = ledger.look(job)
    if entry.status in ("finished", "running"):
        return None
    python = [sys.executable, "-m", "reprl"]
    if entry.status in RESUMABLE:
        return [*python, "resume", str(ledger.folder / entry.folder)]
    if entry.status == "failed":
        if not retry:
            return None
        entry.folder = ledger.retry_name(job)
    options = [f"--config-dir={d}" for d in job.config_dirs]
    place = [f"run_dir={ledger.folder / entry.folder}", "progress=off"]
    return [
        *python,
        "train",
        *job.overrides,
        *place,
        *options,
        f"--sweep-name={ledger.folder.name}",
    ]


class Local:
    """Runs a plan's jobs in processes of this machine."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.plan, self.ledger = plan, ledger
        self.slots = plan.settings.jobs or len(os.sched_getaffinity(0))
        self.waiting = deque(plan.jobs)
        self.running: list[Running] = []
        self.stop_signal: int | None = None

    def run(self) -> int:
        """Work through the plan; the exit code says whether all of it is done."""
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGINT, signal.SIGTERM)}
        (self.ledger.folder / "logs").mkdir(exist_ok=True)
        try:
            with View(self.plan, self.ledger) as view:
                while self.waiting or self.running:
                    self._fill()
                    self._watch()
                    view.show()
                    time.sleep(POLL)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for running in self.running:  # only on an error of our own
                running.process.kill()
        view.finish()
        if self.stop_signal is not None:
            return 130 if self.stop_signal == signal.SIGINT else 143
        statuses = {self.ledger.entries[j.identity].status for j in self.plan.jobs}
        return 0 if statuses <= {"finished"} else 1

    def _fill(self) -> None:
        while self.waiting and len(self.running) < self.slots and self.stop_signal is None:
            job = self.waiting.popleft()
            claim = self.ledger.claim(job)
            entry = self.ledger.entries[job.identity]
            if claim is None:
                entry.status = "elsewhere"
                continue
            todo = command(job, self.ledger, self.plan.settings.retry)
            if todo is None:
                if entry.status == "running":
                    entry.status = "elsewhere"
                claim.close()
                continue
            entry.attempts += 1
            entry.status, entry.reason = "running", None
            self.running.append(self._start(job, todo, claim))
            self.ledger.write()
        if self.stop_signal is not None:
            self.waiting.clear()

    def _start(self, job: Job, todo: list[str], claim: IO[str]) -> Running:
        threads = str(job.config.threads)
        with open(self._log(job), "ab") as log:
            process = subprocess.Popen(
                todo,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": threads},
                start_new_session=True,  # Ctrl-C reaches only us; we tell the jobs
            )
        return Running(job, process, claim, time.monotonic(), self.plan.settings.time_limit)

    def _watch(self) -> None:
        for running in list(self.running):
            now = time.monotonic()
            code = running.process.poll()
            if code is None:
                over = running.limit is not None and now - running.began > running.limit
                if over and running.stopped is None:
                    running.timed_out = True
                    self._tell(running, signal.SIGTERM)
                if running.stopped is not None and now - running.stopped > GRACE:
                    running.process.kill()
                continue
            self.running.remove(running)
            self._settle(running, code)

    def _settle(self, running: Running, code: int) -> None:
        """Write down what became of a job whose process has ended."""
        job = running.job
        running.claim.close()
        entry = self.ledger.look(job)
        entry.seconds += time.monotonic() - running.began
        if entry.status == "waiting":  # it ended before it had a folder
            entry.status = "failed"
        if running.timed_out:
            entry.reason = f"time limit of {running.limit:g} s"
        elif code < 0:
            entry.reason = f"killed by {signal.Signals(-code).name}" + (
                " (out of memory?)" if code == -signal.SIGKILL else ""
            )
        elif code and not entry.reason:
            entry.reason = self._last_line(job)
        self.ledger.write()

    def _stop(self, number: int, frame: FrameType | None) -> Any:
        again = self.stop_signal is not None
        self.stop_signal = number
        for running in self.running:
            if again:
                running.process.kill()
            else:
                self._tell(running, signal.SIGTERM)

    def _tell(self, running: Running, number: int) -> None:
        running.stopped = time.monotonic()
        running.process.send_signal(number)

    def _log(self, job: Job) -> Path:
        return self.ledger.folder / "logs" / f"{job.name}.log"

    def _last_line(self, job: Job) -> str:
        lines = self._log(job).read_text(errors="replace").strip().splitlines()
        return lines[-1].strip()[:200] if lines else "no output"
