"""One job of a sweep as a process of its own: what to start, how to stop it, what became of it.

plan -> ledger -> launcher -> **process** -> run folder; every launcher starts its jobs here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from reprl import trust
from reprl.config.compose import search_dirs
from reprl.config.overrides import quoted
from reprl.disk import FULL, is_full
from reprl.sweeps.ledger import RESUMABLE, Entry, Ledger
from reprl.sweeps.plan import JobSpec

REFUSED = 2  # the exit code for wrong input
RETRIES = 3  # of a job that lost one of its own processes, in one launch
GRACE = 60.0  # seconds a job has to write its checkpoint when it is told to stop


def command(task: JobSpec, ledger: Ledger, retry: bool) -> list[str] | None:
    """What to start for a job, from the state of its folder; None if there is nothing to do."""
    entry = ledger.look(task)
    if entry.status in ("finished", "running"):
        return None
    python = [sys.executable, "-P", "-m", "reprl"]  # without the working folder on its path
    if entry.status in RESUMABLE:
        dirs = search_dirs(list(task.overrides), task.config_dirs)
        own = [f"--config-dir={d}" for d in dirs]  # the user's, of this command: not the folder's
        return [*python, "resume", str(ledger.folder / entry.folder), *own]
    if entry.status == "failed":
        if not retry:
            return None
        entry.folder = ledger.retry_name(task)
    options = [f"--config-dir={d}" for d in task.config_dirs]
    place = [f"run_dir={quoted(ledger.folder / entry.folder)}", "progress=off"]
    return [
        *python,
        "train",
        *task.overrides,
        *place,
        *options,
        f"--sweep-name={ledger.folder.name}",
    ]


class Running:
    """A job at work; its output goes to a log of its own."""

    def __init__(
        self,
        task: JobSpec,
        todo: list[str],
        *,
        folder: Path,
        claim: IO[str],
        limit: float | None,
        environment: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.task, self.claim, self.limit = task, claim, limit
        self.log = folder / "logs" / f"{task.name}.log"
        self.log.parent.mkdir(exist_ok=True)
        self.began = time.monotonic()
        self.stopped: float | None = None  # when it was told to stop
        self.timed_out = False
        self.recorded = "running"  # what the run folder says at the end
        with open(self.log, "ab") as log:
            self.log_before = log.tell()  # earlier attempts wrote here too
            self.process = subprocess.Popen(
                todo,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    **trust.environment(),
                    "OMP_NUM_THREADS": str(task.threads),
                    **(environment or {}),
                },
                cwd=cwd,
                start_new_session=True,  # Ctrl-C reaches only the launcher, which tells its jobs
            )

    def poll(self) -> int | None:
        """The exit code, or None while it works; a job beyond its time is stopped here."""
        code = self.process.poll()
        if code is not None:
            return code
        now = time.monotonic()
        if self.limit is not None and now - self.began > self.limit and self.stopped is None:
            self.timed_out = True
            self.tell()
        if self.stopped is not None and now - self.stopped > GRACE:
            self.process.kill()
        return None

    def tell(self) -> None:
        """Let it write its checkpoint and end."""
        if self.stopped is None:
            self.stopped = time.monotonic()
        self.process.send_signal(signal.SIGTERM)

    def settle(self, ledger: Ledger) -> Entry:
        """Say what became of a job whose process has ended; its claim is still held."""
        entry = ledger.look(self.task)
        self.recorded = entry.status
        entry.seconds += time.monotonic() - self.began
        if entry.status == "finished":
            return entry
        if entry.status == "waiting":  # it ended before it had a folder
            entry.status = self._ended_early(ledger.folder)
        entry.reason = self._reason(entry.reason)
        return entry

    @property
    def lost_a_worker(self) -> bool:
        """Whether it ended by itself, resumably, because one of its processes was killed."""
        return self.process.returncode == 1 and self.stopped is None and self.recorded == "killed"

    def _ended_early(self, folder: Path) -> str:
        """Failed only if it ended by itself: what was stopped or killed runs again."""
        if self.stopped is not None or is_full(folder):
            return "interrupted"
        return "killed" if self.process.returncode < 0 else "failed"

    def _reason(self, recorded: str | None) -> str | None:
        code, told = self.process.returncode, self.stopped is not None
        if self.timed_out:
            return f"time limit of {self.limit:g} s"
        if told and code == -signal.SIGTERM:  # it had no handler yet
            return "stopped while it was starting"
        if code < 0:
            perhaps = " (out of memory?)" if code == -signal.SIGKILL and not told else ""
            return f"killed by {signal.Signals(-code).name}{perhaps}"
        # run.json knows nothing of a process that was refused
        return self._last_line() if code == REFUSED or (code and not recorded) else recorded

    def _last_line(self) -> str:
        """The last thing the job said; a full disk takes even that."""
        lines = self.log.read_bytes()[self.log_before :].decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if not said:
            return FULL if is_full(self.log.parent) else "no output"
        return said[-1][:200]
