"""What a person sees of a sweep: a live table of jobs, plain lines elsewhere, a closing table."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from reprl.escaping import cell, shown
from reprl.runs.metrics import progress_of
from reprl.runs.progress import duration
from reprl.sweeps.ledger import RESUMABLE, Entry, Ledger
from reprl.sweeps.plan import Job, Plan

REFRESH = 2.0  # seconds between two looks at the run folders
LINE_EVERY = 60.0  # seconds between two plain lines
COLOURS = {"finished": "green", "failed": "red", "killed": "red", "running": "cyan"}
FIRST = ("running", "failed", "killed", "interrupted", "elsewhere", "waiting", "finished")


class SweepView:
    """Shows a sweep while it runs; `finish` prints what became of every job."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.plan, self.ledger = plan, ledger
        self.console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200)
        self.live: Live | None = None
        if sys.stdout.isatty():  # transient: the closing table takes its place
            self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.settings = what_varies(plan.jobs)
        self.read: dict[str, tuple[object, tuple[int, float | None, float | None]]] = {}
        self.statuses = {job.identity: self._entry(job).status for job in plan.jobs}
        self.since: dict[str, float] = {}  # when a job was first seen at work
        self.began = self.looked = self.said = time.monotonic()
        self.steps_before = self._steps()

    def __enter__(self) -> SweepView:
        with suppress(OSError):
            before = "" if set(self.statuses.values()) == {"waiting"} else f": {self._counts()}"
            print(f"{len(self.plan.jobs)} jobs in {self.ledger.folder}{before}", flush=True)
        if self.live:
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live:
            self.live.__exit__(*error)

    def show(self) -> None:
        """Refresh the table, or say in a line what has changed."""
        with suppress(OSError):  # a full disk or a closed pipe must not end the jobs
            self._show(time.monotonic())

    def say(self, job: Job, text: str) -> None:
        """A line about a job that its status alone would not show."""
        with suppress(OSError):
            words = shown(f"job {job.number} {text}")
            self.console.print(words, markup=False, highlight=False, soft_wrap=True)

    def finish(self) -> None:
        """The closing table of every job, and how to go on with what is not finished."""
        with suppress(OSError):
            self.console.print(self._table(self.plan.jobs, closing=True))
            if self.ledger.unwritten:
                print(f"the ledger could not be written: {self.ledger.unwritten}")
            print(self._counts())
            left = {self._entry(job).status for job in self.plan.jobs}
            if left & {*RESUMABLE, "waiting"}:
                print("the same command goes on with what was interrupted, killed or waiting.")
            if "failed" in left:
                logs = self.ledger.folder / "logs"
                print(f"what failed runs again with sweep.retry=true; what it said is in {logs}")

    def _show(self, now: float) -> None:
        if self.live and now - self.looked > REFRESH:
            self.looked = now
            self.live.update(self._live_table(), refresh=True)
        for job in self.plan.jobs:
            entry, before = self._entry(job), self.statuses[job.identity]
            if before != entry.status:
                self.statuses[job.identity] = entry.status
                if entry.status == "running":
                    self.since[job.identity] = now
                else:
                    self.since.pop(job.identity, None)
                if not self.live:
                    print(f"job {job.number} {shown(self._news(job, entry, before))}", flush=True)
        if not self.live and now - self.said > LINE_EVERY:
            self.said = now
            print(f"{self._done():.0%} of all steps, {self._left()} left", flush=True)

    def _news(self, job: Job, entry: Entry, before: str) -> str:
        if entry.status == "running":
            word = "resumed" if before in RESUMABLE else "started"
            return f"{word}  {self.settings[job.identity]}"
        if entry.status == "finished":
            score = self._progress(job)[1]
            return "finished" if score is None else f"finished, score {score:.1f}"
        reason = entry.reason or entry.status
        return reason if reason.startswith(entry.status) else f"{entry.status}: {reason}"

    def _live_table(self) -> Table:
        """All jobs, or where they are too many for the terminal, those at work and in trouble."""
        jobs, room = list(self.plan.jobs), max(4, self.console.height - 5)
        hidden = ""
        if len(jobs) > room:
            jobs.sort(key=lambda job: FIRST.index(self._entry(job).status))
            hidden = f"; {len(jobs) - room} more not shown"
            jobs = sorted(jobs[:room], key=lambda job: job.number)
        table = self._table(jobs, closing=False)
        table.title = f"{self._done():.0%} of all steps, {self._left()} left"
        table.caption = self._counts() + hidden
        return table

    def _table(self, jobs: list[Job] | tuple[Job, ...], *, closing: bool) -> Table:
        table = Table(box=None, header_style="bold")
        reasons = closing and any(self._entry(job).reason for job in jobs)
        extra = ["folder", *(["reason"] if reasons else [])] if closing else ["steps"]
        for name in ("job", "status", "score", "gap", "time", "settings", *extra):
            right = name in ("job", "score", "gap", "time", "steps")
            fold = name in ("settings", "folder", "reason")
            table.add_column(
                name, justify="right" if right else "left", no_wrap=not fold, overflow="fold"
            )
        for job in jobs:
            entry = self._entry(job)
            step, score, gap = self._progress(job)
            since = self.since.get(job.identity)
            seconds = entry.seconds + (time.monotonic() - since if since is not None else 0.0)
            colour = COLOURS.get(entry.status, "default")
            last = [entry.folder, entry.reason or ""] if closing else []
            table.add_row(
                str(job.number),
                f"[{colour}]{entry.status}[/]",
                _number(score),
                _number(gap),
                duration(seconds) if seconds else "",
                cell(self.settings[job.identity]),
                *map(cell, last[: len(extra)]),
                *([] if closing else [f"{step:,}/{job.config.last_step:,}"]),
            )
        return table

    def _entry(self, job: Job) -> Entry:
        return self.ledger.entries[job.identity]

    def _counts(self) -> str:
        counts = Counter(self._entry(job).status for job in self.plan.jobs)
        return ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))

    def _progress(self, job: Job) -> tuple[int, float | None, float | None]:
        """Step, score and gap of a job; metrics that have not changed are not read again."""
        folder = self.ledger.folder / self._entry(job).folder
        try:
            status = (folder / "metrics.csv").stat()
        except OSError:
            return 0, None, None
        sign = (folder.name, status.st_mtime_ns, status.st_size)
        if self.read.get(job.identity, (None,))[0] != sign:
            self.read[job.identity] = (sign, progress_of(folder))
        return self.read[job.identity][1]

    def _steps(self) -> int:
        return sum(self._steps_of(job) for job in self.plan.jobs)

    def _steps_of(self, job: Job) -> int:
        if self._entry(job).status == "finished":
            return job.config.last_step
        return min(self._progress(job)[0], job.config.last_step)

    def _done(self) -> float:
        return self._steps() / max(1, sum(j.config.last_step for j in self.plan.jobs))

    def _left(self) -> str:
        made = self._steps() - self.steps_before
        open_steps = sum(j.config.last_step for j in self.plan.jobs) - self._steps()
        elapsed = time.monotonic() - self.began
        return duration(elapsed * open_steps / made) if made > 0 else "unknown time"


def what_varies(jobs: tuple[Job, ...]) -> dict[str, str]:
    """What tells the jobs of a sweep apart, by identity: `repr_coef=0.01 seed=2`."""
    common = set.intersection(*(set(job.overrides) for job in jobs))
    found = {}
    for job in jobs:
        own = [text for text in job.overrides if text not in common]
        keys = [text.partition("=")[0].rpartition(".")[2] for text in own]
        # the last word of a key is enough where no other key ends with it
        short = [
            text if keys.count(key) > 1 else f"{key}={text.partition('=')[2]}"
            for text, key in zip(own, keys, strict=True)
        ]
        found[job.identity] = " ".join(short)
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
