"""What the fault tests and `make torture` share: real processes, a small disk, and comparisons.

scenario -> **harness** -> forks -> `reprl` commands in folders that are hurt. A scenario yields
once for every fault it injected: None if nothing was lost, else one sentence saying what was.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reprl import checkpoint
from reprl.tables import read_rows

SMALL = [
    *("threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.size=52"),
    *("env.max_frames=200", "env.workers=0", "encoder.features_dim=16", "total_steps=192"),
    *("algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1", "checkpoint.every=64"),
    *("log.every=32", "eval.every=96", "eval.episodes=1", "eval.variants=[original]"),
]
RANKS = [*SMALL, "ranks=2"]
PLAY = ["variants=original,green_lines", "episodes=2", "progress=off", "agents=none"]
PLAY_ALONE = [*PLAY, "workers=0", "n_envs=2"]
PATIENCE = 240.0  # seconds for any command here, and longer where other work keeps the machine busy
NEWEST, BEFORE_IT = "checkpoints/000000000192", "checkpoints/000000000128"

Outcomes = Generator[str | None, None, None]
Scenario = Callable[["Place", int], Outcomes]


@dataclass
class Row:
    """One line of the table: how often a fault was injected, and what was lost."""

    fault: str
    injected: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def survived(self) -> int:
        return self.injected - len(self.lost)


def but(arguments: list[str], *changes: str) -> list[str]:
    """The same arguments with other values for some keys: a key may be given only once."""
    keys = {word.partition("=")[0] for word in changes}
    return [*(word for word in arguments if word.partition("=")[0] not in keys), *changes]


def table(rows: list[Row]) -> str:
    """The rows as Markdown, with a line for every loss below."""
    lines = ["| injected fault | injected | survived | lost |", "|---|---:|---:|---:|"]
    lines += [f"| {r.fault} | {r.injected} | {r.survived} | {len(r.lost)} |" for r in rows]
    total, lost = sum(r.injected for r in rows), sum(len(r.lost) for r in rows)
    lines += [f"| **all** | **{total}** | **{total - lost}** | **{lost}** |"]
    words = [f"- {r.fault}: {text}" for r in rows for text in dict.fromkeys(r.lost) if text]
    return "\n".join([*lines, "", *words]).rstrip() + "\n"


class Process:
    """A command at work, started by `Place.start`."""

    def __init__(self, place: Place, pid: int, output: Path) -> None:
        self.place, self.pid, self.output = place, pid, output
        self.code: int | None = None

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code, negative for a signal; None if it is still at work after so long."""
        seconds = self.place.patience if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while self.code is None and (left := deadline - time.monotonic()) > -0.1:
            self.place.hear(max(0.0, min(left, 0.05)))
        return self.code

    def end(self) -> int:
        """Wait for the end of a command that must end; one that hangs is killed and said to."""
        if self.wait() is None:
            self.signal(signal.SIGKILL)
            self.wait()
            return HUNG
        assert self.code is not None
        return self.code

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def children(self, name: str = "") -> list[int]:
        """The living processes below this one whose command contains a name."""
        found, parents = [], {self.pid}
        everyone = dict(sorted(_parents().items()))
        while new := {p for p, parent in everyone.items() if parent in parents} - parents:
            parents |= new
        for pid in parents - {self.pid}:
            with suppress(OSError):
                text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if name in text:
                    found.append(pid)
        return sorted(found)

    def work(self) -> float:
        """The processor time it has used: a moment in its work, however busy the machine is."""
        with suppress(OSError):
            numbers = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def at_random(self, least: float = 0.0, most: float = 1.0) -> bool:
        """Wait for a random moment of its work, as a share of a whole run's; False if it ended."""
        assert self.place.whole
        moment = self.work() + self.place.chance.uniform(least, most) * self.place.work
        return self.until(lambda: self.work() >= moment) and self.code is None

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def until(
        self, true: Callable[[], Any], seconds: float | None = None, pause: float = 0.03
    ) -> bool:
        """Wait until something is true of it; False if it ended, or took too long, before."""
        deadline = time.monotonic() + (self.place.patience if seconds is None else seconds)
        while time.monotonic() < deadline:
            if true():
                return True
            if self.wait(pause) is not None:
                return bool(true())
        return False


HUNG = 1000  # no exit code: the command did not end


class Place:
    """A folder for runs to be hurt, the process that forks commands, and one source of chance."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.names, self.processes = iter(range(1 << 62)), dict[int, Process]()
        self.patience = PATIENCE
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: Any) -> None:
        if "server" in vars(self):
            assert self.server.stdin is not None
            self.server.stdin.close()
            self.server.wait()

    @cached_property
    def server(self) -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forks.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "OMP_NUM_THREADS": "1", "WANDB_SILENT": "true"},
            cwd=self.folder,
        )
        self.heard = b""
        self._line(server, 10 * PATIENCE)
        return server

    def new(self, name: str = "run") -> Path:
        """A path that nobody has used."""
        return self.folder / f"{name}{next(self.names)}"

    def start(
        self,
        *arguments: str | Path,
        folder: Path | None = None,
        fault: str = "",
        environment: dict[str, str] | None = None,
    ) -> Process:
        """Start a `reprl` command as a process of its own."""
        server, output = self.server, self.new("output")
        order = {
            "arguments": list(map(str, arguments)),
            "output": str(output),
            "folder": str(folder or self.folder),
            "fault": fault,
            "environment": environment or {},
        }
        assert server.stdin is not None
        server.stdin.write(json.dumps(order).encode() + b"\n")
        self.started: int | None = None
        while self.started is None:
            self.hear(self.patience)
        process = Process(self, self.started, output)
        self.processes[process.pid] = process
        return process

    def run(self, *arguments: str | Path, **options: Any) -> Process:
        """Run a command to its end."""
        process = self.start(*arguments, **options)
        process.code = process.end()
        return process

    def hear(self, seconds: float) -> None:
        """Take the server's next word, if there is one within so long."""
        word = self._line(self.server, seconds)
        if word is not None and "started" in word:
            self.started = word["started"]
        elif word is not None and word.get("pid") in self.processes:
            self.processes.pop(word["pid"]).code = word["code"]

    def _line(self, server: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
        assert server.stdout is not None
        while b"\n" not in self.heard:
            if not select.select([server.stdout], [], [], seconds)[0]:
                return None
            data = os.read(server.stdout.fileno(), 65536)
            if not data:
                vars(self).pop("server", None)  # the next command has a new one
                raise RuntimeError(f"the process that forks commands ended with {server.wait()}")
            self.heard += data
        line, self.heard = self.heard.split(b"\n", 1)
        return dict(json.loads(line))

    # -- runs that nothing was done to, made once ------------------------------------------------

    @cached_property
    def whole(self) -> Path:
        """A run that nobody disturbed; `work` is the processor time it took."""
        path, began = self.new("whole"), time.monotonic()
        done = self.start("train", *SMALL, f"run_dir={path}")
        self.work = 0.0
        while done.wait(0.05) is None:
            self.work = max(self.work, done.work())
        assert done.code == 0, done.said
        self.patience = max(PATIENCE, 40 * (time.monotonic() - began))
        return path

    @cached_property
    def whole_with_a_worker(self) -> Path:
        """The same run with its emulators in a process of their own."""
        assert self.whole
        path = self.new("whole")
        done = self.run("train", *but(SMALL, "env.workers=1"), f"run_dir={path}")
        assert done.code == 0, done.said
        return path

    @cached_property
    def whole_with_ranks(self) -> Path:
        """The same run in two ranks."""
        path = self.new("whole")
        done = self.run("train", *RANKS, f"run_dir={path}")
        assert done.code == 0, done.said
        return path

    @cached_property
    def half(self) -> Path:
        """The same run as if killed: it says running, and has no checkpoint of its end."""
        path = self.new("half")
        shutil.copytree(self.whole, path)
        shutil.rmtree(path / NEWEST)
        record = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps({**record, "status": "running", "step": 128}))
        return path

    @cached_property
    def played(self) -> str:
        """The games of an evaluation of the whole run that nobody disturbed."""
        path = self.copy(self.whole)
        done = self.run("evaluate", path, *PLAY_ALONE)
        assert done.code == 0, done.said
        return games(path)

    def copy(self, run: Path, to: Path | None = None) -> Path:
        """A copy of a run to be hurt."""
        path = to or self.new("copy")
        shutil.copytree(run, path)
        return path

    def forget(self, *paths: Path) -> None:
        """Remove what is not needed any more."""
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)


# -- what became of it ----------------------------------------------------------------------------


def difference(run: Path, whole: Path, *, rows: bool = True, stopped: bool = False) -> str | None:
    """The first thing in which two runs differ: checkpoints, metrics without clocks, games.

    One that was `stopped` has a checkpoint of that moment, which may have taken another's place.
    """
    ours_at, theirs_at = checkpoint.steps(run), checkpoint.steps(whole)
    if ours_at != theirs_at and not (stopped and ours_at[-1:] == theirs_at[-1:]):
        return f"checkpoints at {ours_at} instead of {theirs_at}"
    for step in sorted({*ours_at} & {*theirs_at}):
        for file in checkpoint.FILES:
            ours, theirs = (p / "checkpoints" / f"{step:012d}" / file for p in (run, whole))
            if ours.read_bytes() != theirs.read_bytes():
                return f"{file} at step {step} differs"
    if rows and metrics(run) != metrics(whole):
        return "metrics.csv differs"
    ours, theirs = (p / "evaluation" / "validation.csv" for p in (run, whole))
    return "validation.csv differs" if rows and ours.read_bytes() != theirs.read_bytes() else None


def metrics(run: Path) -> list[dict[str, str]]:
    rows = read_rows(run / "metrics.csv")
    return [{k: v for k, v in r.items() if not k.startswith("time/")} for r in rows]


def games(run: Path) -> str:
    """The games of a run's evaluation without the folder's name, in an order of their own."""
    rows = read_rows(run / "evaluation" / "episodes.csv")
    return "\n".join(sorted(str({**row, "run": ""}) for row in rows))


def unclean(process: Process, codes: tuple[int, ...] = (0, 1, 2)) -> str | None:
    """What is wrong with how a command ended: only these codes, a sentence, no traceback."""
    what = " ".join(Path(w).name for w in process.said.split("\n")[-2:-1])
    if process.code == HUNG:
        return "it did not end"
    if "Traceback" in process.said:
        return f"a traceback ({what})"
    if process.code not in codes:
        return f"exit code {process.code} ({what})"
    return None if process.code == 0 or process.said.strip() else "it said nothing"


def alive(pids: list[int]) -> list[int]:
    """Those that are still at work."""
    found = []
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found


def gone(pids: list[int], seconds: float = 30.0) -> str | None:
    """None when all processes have ended within so long."""
    deadline = time.monotonic() + seconds
    while (left := alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return f"{len(left)} processes outlived it" if left else None


def first(*found: str | None) -> str | None:
    """The first thing that is wrong."""
    return next((text for text in found if text), None)


def _parents() -> dict[int, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            found[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    return found


# -- a disk of our own ----------------------------------------------------------------------------


class NoDisk(Exception):
    """No disk may be mounted here."""


class Disk:
    """A tmpfs of a few megabytes that can be filled up, and made read-only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ballast = path / "ballast"

    def fill(self, leave: int) -> None:
        """Take all room but so many bytes."""
        room = os.statvfs(self.path)
        size = max(0, room.f_bavail * room.f_frsize - leave)
        with open(self.ballast, "wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, size))

    def empty(self) -> None:
        self.ballast.unlink(missing_ok=True)

    def read_only(self, on: bool) -> None:
        mount("-o", f"remount,{'ro' if on else 'rw'}", str(self.path))


@contextmanager
def disk(place: Place, megabytes: int = 24) -> Iterator[Disk]:
    """Mount a disk of its own; needs root, or a user namespace (`unshare -Urm`)."""
    path = place.new("disk")
    path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise NoDisk(done.stderr.strip())
