"""The local launcher: one process a job, as many at once as there are cores, each on its own.

A job that raises, is killed or runs out of memory costs only itself; Ctrl-C and SIGTERM let every
job write its checkpoint, and the same command goes on from there.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from contextlib import suppress
from types import FrameType
from typing import Any

from reprl.errors import UserError
from reprl.runs.signals import STOPPING, handled
from reprl.sweeps.ledger import RESUMABLE, Ledger
from reprl.sweeps.plan import Job, Plan
from reprl.sweeps.process import RETRIES, Running, command
from reprl.sweeps.view import SweepView

POLL = 0.2


class Local:
    """Runs a plan's jobs in processes of this machine."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.plan, self.ledger = plan, ledger
        self.slots = plan.settings.jobs or len(os.sched_getaffinity(0))
        self.waiting = deque(plan.jobs)
        self.running: list[Running] = []
        self.stop_signal: int | None = None
        self.retried: Counter[str] = Counter()

    def run(self) -> int:
        """Work through the plan; the exit code says whether all of it is done."""
        try:
            with handled(STOPPING, self._stop), SweepView(self.plan, self.ledger) as view:
                while self.waiting or self.running:
                    self._watch(view)
                    self._fill()  # at once: a free core should not wait for the next look
                    view.show()
                    time.sleep(POLL)
        finally:
            for running in self.running:  # only on an error of our own
                running.process.kill()
        for job in self.plan.jobs:
            self._conclude(job)
        view.finish()
        return self.ledger.exit_code(self.plan.jobs, self.stop_signal)

    def _fill(self) -> None:
        while self.waiting and len(self.running) < self.slots and self.stop_signal is None:
            job = self.waiting.popleft()
            try:
                self._begin(job)
            except OSError as error:  # a full disk, say: the others may still be well
                entry = self.ledger.entries[job.identity]
                entry.status, entry.reason = "waiting", f"not started: {error.strerror}"
        if self.stop_signal is not None:
            self.waiting.clear()

    def _begin(self, job: Job) -> None:
        """Start a job, unless it is done, failed before or in other hands."""
        claim = self.ledger.claim(job)
        entry = self.ledger.entries[job.identity]
        if claim is None:
            entry.status = "elsewhere"
            return
        todo = command(job, self.ledger, self.plan.settings.retry)
        if todo is None:
            if entry.status == "running":
                entry.status = "elsewhere"
            claim.close()
            return
        limit = self.plan.settings.time_limit
        self.running.append(Running(job, todo, folder=self.ledger.folder, claim=claim, limit=limit))
        entry.attempts += 1
        entry.status, entry.reason = "running", None
        self.ledger.write()

    def _watch(self, view: SweepView) -> None:
        for running in list(self.running):
            if self.stop_signal is not None and running.stopped is None:
                running.tell()  # it began at the very moment of the signal
            if running.poll() is not None:
                self.running.remove(running)
                running.settle(self.ledger)
                self.ledger.write()
                running.claim.close()  # whoever takes it now reads what became of it
                self._perhaps_again(running, view)

    def _perhaps_again(self, running: Running, view: SweepView) -> None:
        """A job that lost an environment worker goes on from its checkpoint, a few times."""
        identity = running.task.identity
        if running.lost_a_worker and self.retried[identity] < RETRIES:
            self.retried[identity] += 1
            job = next(j for j in self.plan.jobs if j.identity == identity)
            reason = self.ledger.entries[identity].reason or "killed"
            view.say(job, f"{reason.rstrip('.')}: it goes on from its checkpoint")
            self.waiting.append(job)

    def _conclude(self, job: Job) -> None:
        """See whether another launcher has taken up what was interrupted here."""
        entry = self.ledger.entries[job.identity]
        with suppress(OSError, UserError):
            if entry.status in RESUMABLE:
                claim = self.ledger.claim(job)
                if claim is None:
                    entry.status, entry.reason = "elsewhere", None
                    return
                with claim:
                    if entry.status not in RESUMABLE:  # somebody had it meanwhile
                        self.ledger.look(job)

    def _stop(self, number: int, frame: FrameType | None) -> Any:
        again = self.stop_signal is not None
        self.stop_signal = number
        for running in self.running:
            if again:
                running.process.kill()
            else:
                running.tell()
