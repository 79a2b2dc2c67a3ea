"""The cluster launcher: hands a plan's jobs to SLURM or Ray and watches their run folders.

plan -> ledger -> **cluster** -> Hydra's launcher -> cluster_job on some node -> run folder. The
nodes share the sweep's folder; it is all that this process and the jobs know of each other.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from reprl import trust
from reprl.config.overrides import quoted
from reprl.errors import UserError
from reprl.runs.signals import STOPPING, handled
from reprl.sweeps.cluster.job import Launch, Spec, notes
from reprl.sweeps.cluster.launcher import Launcher
from reprl.sweeps.ledger import Entry, Ledger
from reprl.sweeps.plan import Job, Plan
from reprl.sweeps.view import SweepView

POLL = 0.5
LOOK = 2.0  # seconds between two looks at every run folder
CONNECT = 20.0  # seconds a Ray cluster has to take us in
ATTEMPTS = 4  # of a job whose process is killed again and again


class Cluster:
    """Runs a plan's jobs through one of Hydra's launchers."""

    def __init__(self, plan: Plan, ledger: Ledger, launcher: Launcher) -> None:
        self.plan, self.ledger, self.launcher = plan, ledger, launcher
        folder = ledger.folder.resolve()
        self.log = folder / "logs" / "launcher.log"
        self.launch = Launch(
            id=f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{secrets.token_hex(3)}",
            folder=folder,
            cwd=Path.cwd(),
            jobs=tuple(spec(job) for job in plan.jobs),
            retry=plan.settings.retry,
            time_limit=plan.settings.time_limit,
            ray=launcher.ray,
            trust=trust.environment(),
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.stop_signal: int | None = None
        self.looked = 0.0

    def run(self) -> int:
        """Work through the plan; the exit code says whether all of it is done."""
        self.log.parent.mkdir(exist_ok=True)
        self.launch.write()
        try:
            with handled(STOPPING, self._stop), SweepView(self.plan, self.ledger) as view:
                todo = [j for j in self.plan.jobs if self._open(self.ledger.entries[j.identity])]
                while todo and self.stop_signal is None:
                    code = self._hand_over(todo, view)
                    # A launcher gives up at its first lost job; the others are handed over again.
                    todo = [j for j in todo if self._lost(j)] if code else []
                for job in self.plan.jobs:
                    self._conclude(job)
                self.ledger.write()
                view.show()
        finally:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
        view.finish()
        return self.ledger.exit_code(self.plan.jobs, self.stop_signal)

    def _open(self, entry: Entry) -> bool:
        return entry.status != "finished" and (entry.status != "failed" or self.launch.retry)

    def _hand_over(self, todo: list[Job], view: SweepView) -> int:
        """Give jobs to the launcher and wait for it; its exit code."""
        numbers = ",".join(str(self.plan.jobs.index(job)) for job in todo)
        place = quoted(self.launch.place)
        arguments = [
            *("--multirun", f"+launch={quoted(self.launch.file)}", f"+number={numbers}"),
            *(f"hydra.sweep.dir={place}", "hydra.sweep.subdir=.", "hydra.output_subdir=null"),
            *("hydra/job_logging=disabled", "hydra.job.name=reprl", *self.launcher.overrides),
        ]
        start = [sys.executable, "-P", "-m", "reprl.sweeps.cluster.submit", str(self.launch.file)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*start, *arguments],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **trust.environment(), "PYTHONSAFEPATH": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        began = time.monotonic()
        while (code := self.process.poll()) is None or (code and self._busy(todo)):
            if self.stop_signal is not None and not self._busy(todo):
                return 1  # the launcher may wait for ever for what was cancelled
            late = self.launcher.ray is not None and time.monotonic() - began > CONNECT
            if late and not (self.launch.place / "connected").exists():
                raise UserError(
                    f"the Ray cluster at {self._address()} did not take this sweep in within "
                    f"{CONNECT:g} s: is it a Ray of this version, with this RAY_AUTH_TOKEN?"
                )
            self._look()
            view.show()
            time.sleep(POLL)
        if code and not any(self._ours(job) for job in self.plan.jobs):
            raise UserError(self._why())
        return code

    def _look(self) -> None:
        if time.monotonic() - self.looked > LOOK:
            self.looked = time.monotonic()
            for job in self.plan.jobs:
                with suppress(UserError):  # a file that is being replaced on a network disk
                    self._update(self.ledger.look(job, probe=False), job)

    def _update(self, entry: Entry, job: Job) -> None:
        """Add to what a run folder says what the job's process left as a note."""
        ours = self._ours(job)
        if not ours:
            return
        every = notes(self.launch.folder, job)
        entry.attempts = len([n for n in every if "began" in n])
        entry.seconds = sum(n.get("seconds", 0.0) for n in every)
        if "ended" in ours[-1]:
            entry.status, entry.reason = ours[-1]["status"], ours[-1]["reason"]

    def _conclude(self, job: Job) -> None:
        entry = self.ledger.look(job)
        at_work = entry.status == "running"  # for another launcher, if our own attempt has ended
        self._update(entry, job)
        if at_work:
            entry.status, entry.reason = "elsewhere", None

    def _busy(self, todo: list[Job]) -> bool:
        """Whether a job is still at work though its launcher has gone."""
        begun = [j for j in todo if (ours := self._ours(j)) and "ended" not in ours[-1]]
        for job in begun:
            claim = self.ledger.claim(job)
            if claim is None:
                return True
            claim.close()
        return False

    def _lost(self, job: Job) -> bool:
        ours = self._ours(job)
        return len(ours) < ATTEMPTS and not (ours and "ended" in ours[-1])

    def _ours(self, job: Job) -> list[dict[str, Any]]:
        return [n for n in notes(self.launch.folder, job) if n["launch"] == self.launch.id]

    def _stop(self, number: int, frame: FrameType | None) -> Any:
        if self.stop_signal is not None and self.process is not None:
            self.process.kill()
        self.stop_signal = number
        self.launch.stop.touch()
        # What waits in SLURM's queue would see that file only when it starts.
        ids = [p.name.partition("_")[0] for p in self.launch.place.glob(".submitit/*_*")]
        arrays = sorted({i for i in ids if i.isdigit()})
        if arrays and self.launcher.name == "submitit_slurm":  # without ids it would cancel all
            cancel = ["scancel", "--state=PENDING", *arrays]
            subprocess.run(cancel, check=False, capture_output=True)

    def _address(self) -> str:
        return str((self.launcher.ray or {}).get("address"))

    def _why(self) -> str:
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "no output")[:300]
        return f"hydra/launcher={self.launcher.name} started no job: {last} (see {self.log})"


def spec(job: Job) -> Spec:
    """A job as plain data; its device is decided here, as its identity is."""
    overrides = tuple(o for o in job.overrides if not o.startswith("device="))
    overrides += (f"device={job.config.device}",)
    return Spec(job.identity, job.name, overrides, job.config_dirs, job.threads)
