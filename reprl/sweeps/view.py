"""What a person sees of a sweep: a live table of jobs, plain lines elsewhere, a closing table."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from reprl.metrics import progress_of
from reprl.sweeps.ledger import Entry, Ledger
from reprl.sweeps.plan import Job, Plan

REFRESH = 2.0  # seconds between two looks at the run folders
LINE_EVERY = 60.0  # seconds between two plain lines
COLOURS = {"finished": "green", "failed": "red", "killed": "red", "running": "cyan"}


class View:
    """Shows a sweep while it runs; `finish` prints what became of every job."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.plan, self.ledger = plan, ledger
        self.console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160)
        self.live = Live(console=self.console, auto_refresh=False) if sys.stdout.isatty() else None
        self.began = self.looked = self.said = time.monotonic()
        self.statuses: dict[str, str] = {}
        self.steps_before = self._steps()

    def __enter__(self) -> View:
        self.console.print(f"{len(self.plan.jobs)} jobs in {self.ledger.folder}")
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

    def _show(self, now: float) -> None:
        if self.live and now - self.looked > REFRESH:
            self.looked = now
            self.live.update(self._table(closing=False), refresh=True)
        if not self.live:
            self._lines(now)

    def finish(self) -> None:
        """The closing table: status, score, gap, time, folder and reason of every job."""
        self.console.print(self._table(closing=True))
        if self.ledger.unwritten:
            self.console.print(f"the ledger could not be written: {self.ledger.unwritten}")
        counts: dict[str, int] = {}
        for job in self.plan.jobs:
            status = self.ledger.entries[job.identity].status
            counts[status] = counts.get(status, 0) + 1
        self.console.print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())))

    def _lines(self, now: float) -> None:
        for job in self.plan.jobs:
            entry = self.ledger.entries[job.identity]
            if self.statuses.get(job.identity, "waiting") != entry.status:
                self.statuses[job.identity] = entry.status
                reason = f": {entry.reason}" if entry.reason else ""
                print(f"job {job.number} {entry.status}{reason}  {entry.folder}", flush=True)
        if now - self.said > LINE_EVERY:
            self.said = now
            print(f"{self._done():.0%} of all steps, {self._left()} left", flush=True)

    def _table(self, *, closing: bool) -> Table:
        title = None if closing else f"{self._done():.0%} of all steps, {self._left()} left"
        last = "reason" if closing else "steps"
        table = Table(box=None, title=title, header_style="bold")
        for name in ("job", "status", "score", "gap", "time", last, "folder"):
            right = name in ("job", "score", "gap", "time", "steps")
            table.add_column(name, justify="right" if right else "left", no_wrap=name != "reason")
        for job in self.plan.jobs:
            entry = self.ledger.entries[job.identity]
            step, score, gap = progress_of(self.ledger.folder / entry.folder)
            colour = COLOURS.get(entry.status, "default")
            table.add_row(
                str(job.number),
                f"[{colour}]{entry.status}[/]",
                _number(score),
                _number(gap),
                _clock(entry.seconds) if entry.seconds else "",
                escape(entry.reason or "") if closing else f"{step:,}/{job.config.total_steps:,}",
                escape(entry.folder),
            )
        return table

    def _steps(self) -> int:
        return sum(self._steps_of(job) for job in self.plan.jobs)

    def _steps_of(self, job: Job) -> int:
        entry: Entry = self.ledger.entries[job.identity]
        if entry.status == "finished":
            return job.config.total_steps
        return min(progress_of(self.ledger.folder / entry.folder)[0], job.config.total_steps)

    def _done(self) -> float:
        return self._steps() / max(1, sum(j.config.total_steps for j in self.plan.jobs))

    def _left(self) -> str:
        made = self._steps() - self.steps_before
        open_steps = sum(j.config.total_steps for j in self.plan.jobs) - self._steps()
        elapsed = time.monotonic() - self.began
        return _clock(elapsed * open_steps / made) if made > 0 else "unknown time"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
