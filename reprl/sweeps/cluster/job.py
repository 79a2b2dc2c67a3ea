"""One job on a node of a cluster: find it in the launch, claim it, train or resume, leave a note.

`reprl train -m hydra/launcher=...` -> cluster -> cluster_launch -> **cluster_job** -> run folder.
A job may be started twice, by a retry or by another sweep: what is done is not done again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from reprl.errors import UserError
from reprl.runs.folder import RunFolder, now, step_of, write_atomically
from reprl.runs.signals import handled
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.plan import JobSpec
from reprl.sweeps.process import GRACE, RETRIES, Running, command

POLL = 0.5


@dataclass(frozen=True)
class Spec:
    """A job as plain data: all a node must know to run it."""

    identity: str
    name: str
    overrides: tuple[str, ...]
    config_dirs: tuple[Path, ...]
    threads: int


@dataclass(frozen=True)
class Launch:
    """What one command hands to its cluster, kept as a file in the sweep's folder."""

    id: str
    folder: Path  # of the sweep; every node sees it under the same name
    cwd: Path
    jobs: tuple[Spec, ...]
    retry: bool
    time_limit: float | None
    ray: dict[str, Any] | None  # arguments of ray.init
    trust: dict[str, str] = field(default_factory=dict)  # what the user named

    @property
    def place(self) -> Path:
        return self.folder / ".launcher" / self.id

    @property
    def file(self) -> Path:
        return self.place / "launch.json"

    @property
    def stop(self) -> Path:
        """While this file exists, running jobs stop and no other begins."""
        return self.place / "stop"

    def write(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps(asdict(self), indent=1, default=str) + "\n")

    @classmethod
    def read(cls, file: Path) -> Launch:
        values = json.loads(file.read_text())
        jobs = tuple(
            Spec(
                identity=job["identity"],
                name=job["name"],
                overrides=tuple(job["overrides"]),
                config_dirs=tuple(map(Path, job["config_dirs"])),
                threads=job["threads"],
            )
            for job in values["jobs"]
        )
        places = {key: Path(values[key]) for key in ("folder", "cwd")}
        return cls(**{**values, **places, "jobs": jobs})


def work(settings: Any) -> str:
    """The task every launcher calls; it never raises, so that no job ends the others."""
    launch = Launch.read(Path(settings.launch))
    spec = launch.jobs[int(settings.number)]
    try:
        return Worker(launch, spec).run()
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
        note(launch.folder, spec, launch=launch.id, ended=now(), status="failed", reason=reason)
        return "failed"


class Worker:
    """Runs one job in a process of its own and passes on what the cluster says."""

    def __init__(self, launch: Launch, spec: Spec) -> None:
        self.launch, self.spec = launch, spec
        self.ledger = Ledger(launch.folder)
        self.ledger.read([spec])
        self.where = where()

    def run(self) -> str:
        """Do what is left of the job; the status it ends with."""
        claim = self._claim()
        if claim is None:
            return "elsewhere"
        with claim:
            for _ in range(1 + RETRIES):
                status, again = self._attempt(claim)
                if not again:
                    break
            return status

    def _attempt(self, claim: IO[str]) -> tuple[str, bool]:
        """Run the job once: its status, and whether it lost a worker and can go on at once."""
        todo = None if self.launch.stop.exists() else self._todo()
        entry = self.ledger.entries[self.spec.identity]
        if todo is None:
            return entry.status, False
        # The process is told by the kernel if this one dies: a retry must not meet it.
        todo[1:4] = ["-P", "-m", "reprl.sweeps.cluster.child", str(os.getpid())]
        before = self._step()
        self._note(where=self.where, began=now(), step=before)
        running = Running(
            self.spec,
            todo,
            folder=self.launch.folder,
            claim=claim,
            limit=self.launch.time_limit,
            environment={"REPRL_JOB": self.where, **self.launch.trust},
            cwd=self.launch.cwd if self.launch.cwd.is_dir() else None,
        )
        try:
            with passing_on(running):
                while running.poll() is None:
                    if self.launch.stop.exists() and running.stopped is None:
                        running.tell()
                    time.sleep(POLL)
        finally:  # also when the cluster ends this process
            end(running)
            entry = running.settle(self.ledger)
            self._note(
                ended=now(),
                status=entry.status,
                reason=entry.reason,
                seconds=round(time.monotonic() - running.began, 1),
                step=self._step(),
            )
        print(f"{self.spec.name}: {entry.status} on {self.where}", flush=True)
        return entry.status, running.lost_a_worker

    def _claim(self) -> IO[str] | None:
        """Hold the job; if an earlier attempt of this launch is still dying, wait for its end."""
        deadline = time.monotonic() + GRACE
        while (claim := self.ledger.claim(self.spec)) is None:
            last = notes(self.launch.folder, self.spec)[-1:]
            ours = bool(last) and last[0]["launch"] == self.launch.id and "ended" not in last[0]
            if not ours or time.monotonic() > deadline:
                return None
            time.sleep(POLL)
        return claim

    def _todo(self) -> list[str] | None:
        deadline = time.monotonic() + GRACE
        while self.ledger.look(self.spec).status == "running" and time.monotonic() < deadline:
            time.sleep(POLL)
        earlier = notes(self.launch.folder, self.spec)
        tried = any(n["launch"] == self.launch.id and n.get("status") == "failed" for n in earlier)
        return command(self.spec, self.ledger, self.launch.retry and not tried)

    def _step(self) -> int:
        folder = RunFolder(self.launch.folder / self.ledger.entries[self.spec.identity].folder)
        with suppress(UserError):  # none yet, or damaged
            return step_of(folder.record())
        return 0

    def _note(self, **values: Any) -> None:
        note(self.launch.folder, self.spec, launch=self.launch.id, **values)


@contextmanager
def passing_on(running: Running) -> Iterator[None]:
    """Have the checkpoint on disk before the launcher's own handler gives up or requeues the job.

    submitit requeues inside its handler of the preemption signal, and SLURM then ends the job.
    """
    signals = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
    before = {s: handler for s in signals if callable(handler := signal.getsignal(s))}

    def handle(number: int, frame: FrameType | None) -> None:
        print(f"{signal.Signals(number).name}: stopping at a checkpoint", flush=True)
        end(running)
        before[signal.Signals(number)](number, frame)

    with handled(before, handle):
        yield


def end(running: Running) -> None:
    """Tell a job to write its checkpoint, and wait until it has."""
    if running.poll() is None:
        running.tell()
    while running.poll() is None:
        time.sleep(0.05)


def where() -> str:
    """Which part of a cluster this process is, as its users would look for it."""
    host, variables = socket.gethostname(), os.environ
    if "SLURM_ARRAY_JOB_ID" in variables:
        return f"slurm {variables['SLURM_ARRAY_JOB_ID']}_{variables['SLURM_ARRAY_TASK_ID']} {host}"
    if "SLURM_JOB_ID" in variables:
        return f"slurm {variables['SLURM_JOB_ID']} {host}"
    if (ray := sys.modules.get("ray")) is not None and ray.is_initialized():
        return f"ray {ray.get_runtime_context().get_node_id()[:8]} {host}"
    if "SUBMITIT_LOCAL_JOB_ID" in variables:
        return f"submitit {variables['SUBMITIT_LOCAL_JOB_ID']} {host}"
    return f"process {os.getpid()} {host}"


def note(folder: Path, task: JobSpec, **values: Any) -> None:
    """Add a line to the job's history; a full disk must not end a job."""
    with suppress(OSError), open(folder / ".claims" / f"{task.identity}.jsonl", "a") as file:
        file.write(json.dumps(values, default=str) + "\n")


def notes(folder: Path, task: JobSpec) -> list[dict[str, Any]]:
    """Every attempt at a job on a cluster: a line where it began and one where it ended."""
    file = folder / ".claims" / f"{task.identity}.jsonl"
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        with suppress(ValueError):  # a line cut off by a full disk
            found.append(json.loads(line))
    return found
