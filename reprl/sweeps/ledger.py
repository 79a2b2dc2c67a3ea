"""The ledger of a sweep: which job is where and what became of it, never the same job twice.

The run folders hold the truth; `ledger.json` is an index of them that is rebuilt when lost, and
that several launchers may write at once. A job is claimed by a lock on a file of its own, which the
kernel frees when its holder dies.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from reprl import guard
from reprl.disk import write_atomically
from reprl.errors import UserError
from reprl.runs.folder import RunFolder
from reprl.schema import STATUSES
from reprl.sweeps.plan import JobSpec

VERSION = 1
RESUMABLE = ("interrupted", "killed")


@dataclass
class Entry:
    """What is known of one job."""

    folder: str
    status: str = "waiting"  # waiting, running, elsewhere, finished, interrupted, killed, failed
    reason: str | None = None
    seconds: float = 0.0
    attempts: int = 0
    overrides: list[str] = field(default_factory=list)


class Ledger:
    """Entries by job identity, kept in the sweep folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "ledger.json"
        self.entries: dict[str, Entry] = {}
        self.known: dict[str, Entry] = {}  # what this process last read or wrote of each
        self.unwritten: str | None = None  # why the index could not be written, if so

    def open(self, jobs: Sequence[JobSpec]) -> None:
        """Read the index, or rebuild it from the run folders, and look at every job's folder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"the sweep folder {self.folder} cannot be made: {error}.") from None
        self.read(jobs)
        self.write()

    def read(self, jobs: Sequence[JobSpec]) -> None:
        """Read the index and look at every job's folder, without writing anything."""
        if self.folder.is_dir():
            guard.inspect(self.folder)
        self.known = self._read()
        self.entries = {identity: replace(entry) for identity, entry in self.known.items()}
        for job in jobs:
            entry = self.entries.setdefault(job.identity, Entry(folder=job.name))
            entry.overrides = list(job.overrides)
            self.look(job)

    def exit_code(self, jobs: Sequence[JobSpec], stopped_by: int | None) -> int:
        """What a launcher ends with: 0 if every job is finished, 1 if not; 128 + a signal."""
        if stopped_by is not None:
            return 128 + stopped_by
        return int(any(self.entries[job.identity].status != "finished" for job in jobs))

    def look(self, job: JobSpec, *, probe: bool = True) -> Entry:
        """Bring an entry up to date with its run folder, whoever wrote there.

        Without `probe` a run that says it runs is believed, and its lock left alone.
        """
        entry = self.entries[job.identity]
        folder = self._newest(job)
        if folder is None:
            if entry.status != "failed":  # it may fail before it has a folder
                entry.status = "waiting"
            return entry
        entry.folder = folder.path.name
        try:
            record = folder.record()
            status = folder.status() if probe else str(record.get("status"))
        except UserError as error:
            if not probe:
                raise
            entry.status, entry.reason = "failed", str(error)
            return entry
        if status in STATUSES:
            entry.status, entry.reason = status, str(record.get("reason") or "") or None
        else:
            entry.status, entry.reason = "failed", f"{folder.record_file} has no status"
        return entry

    def retry_name(self, job: JobSpec) -> str:
        """A new folder for a job that failed: nothing is overwritten."""
        number = 1
        while (self.folder / f"{job.name}+{number}").exists():
            number += 1
        return f"{job.name}+{number}"

    def claim(self, job: JobSpec) -> IO[str] | None:
        """Hold a job for this process, or None if another sweep has it."""
        claims = self.folder / ".claims"
        claims.mkdir(exist_ok=True)
        file = guard.lock_file(claims / job.identity)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError as error:  # a network file system without locks
            file.close()
            raise UserError(f"{self.folder} cannot hold locks: {error.strerror}.") from None
        self._catch_up(job)
        return file

    def write(self) -> None:
        """Write what is new here; a full disk may not end the sweep: the folders hold the truth."""
        try:
            with guard.lock_file(self.folder / ".ledger.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                there = self._read()
                ours = {k: e for k, e in self.entries.items() if self._changed(k) or k not in there}
                jobs = {identity: vars(entry) for identity, entry in (there | ours).items()}
                values = {"version": VERSION, "jobs": jobs}
                write_atomically(self.file, json.dumps(values, indent=1) + "\n")
            self.known |= {identity: replace(entry) for identity, entry in ours.items()}
            self.unwritten = None
        except (OSError, UserError) as error:
            self.unwritten = str(error)

    def _changed(self, identity: str) -> bool:
        """Whether this process has news of a job; of one in other hands it has none."""
        entry = self.entries[identity]
        return entry != self.known.get(identity) and entry.status != "elsewhere"

    def _catch_up(self, job: JobSpec) -> None:
        """Take over what another launcher wrote of a job: it may have failed without a folder."""
        with suppress(UserError):
            there = self._read().get(job.identity)
            if there is not None and there != self.known.get(job.identity):
                self.known[job.identity] = replace(there)
                vars(self.entries[job.identity]).update(vars(there))

    def _newest(self, job: JobSpec) -> RunFolder | None:
        """The job's latest attempt; folders are found by the identity in their name."""
        attempts: dict[int, Path] = {}
        for path in self.folder.glob(f"[!.]*_{job.identity}*"):
            # What follows the identity is nothing, or the +1, +2 of retry_name: not a user's copy.
            number = re.fullmatch(r"(?:\+(\d+))?", path.name.partition(job.identity)[2])
            if number and (path / "run.json").exists():
                attempts[int(number[1] or 0)] = path
        return RunFolder(attempts[max(attempts)]) if attempts else None

    def _read(self) -> dict[str, Entry]:
        if not self.file.exists():
            return {}
        try:
            values = dict(json.loads(guard.read_text(self.file)))
            if (version := values.get("version")) == VERSION:
                return {k: _entry(e) for k, e in values["jobs"].items()}
        except (OSError, RecursionError, ValueError, TypeError, LookupError, AttributeError):
            return {}  # lost: open() rebuilds it from the folders
        raise UserError(
            f"{self.file} is of version {version}, this reprl writes version {VERSION}: move the "
            "file away to have it rebuilt from the run folders."
        )


def _entry(values: dict[str, Any]) -> Entry:
    """An entry from a file; its folder is one beside the file, or the index counts as lost."""
    entry = Entry(**values)
    if not guard.plain_name(entry.folder):
        raise ValueError("a folder that lies elsewhere")
    return entry
