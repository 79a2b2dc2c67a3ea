"""The worker processes of a vector environment: started, watched, stopped, nothing left behind.

The memory has no name (an unlinked file), and a worker whose socket closes ends itself, so even a
SIGKILL of the parent leaves neither processes nor shared memory.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np

from reprl import trust
from reprl.envs.block import Arrays
from reprl.envs.machine import EnvSettings
from reprl.envs.variation import Variant
from reprl.envs.worker import CALL, DONE, IGNORED, MISSING, REFUSED, RESET, STEP
from reprl.errors import UserError


class WorkerError(RuntimeError):
    """A worker process died, raised or hung; the message names it and its environments."""


class WorkerLost(WorkerError):
    """A worker was killed or hangs: what it was doing may be right, and can be done again."""


class Workers:
    """k processes that share the environments in contiguous blocks."""

    usual_patience = 20.0
    start_patience = 120.0  # a worker imports and builds its emulators first

    def __init__(
        self, settings: EnvSettings, variants: list[Variant], seed: int, k: int, begin: int = 0
    ) -> None:
        total = len(variants)
        memory = _anonymous_file(Arrays.bytes_needed(total, settings))
        try:
            self._memory = mmap.mmap(memory, 0)
            self.arrays = Arrays.over(self._memory, total, settings)
            self.rows = [[int(r) for r in part] for part in np.array_split(np.arange(total), k)]
            self._owner = {row: w for w, rows in enumerate(self.rows) for row in rows}
            self._processes: list[subprocess.Popen[bytes]] = []
            self._connections: list[Connection] = []
            for _ in range(k):
                ours, theirs = socket.socketpair()
                self._processes.append(_spawn(theirs, memory))
                self._connections.append(Connection(ours.detach()))
        finally:
            os.close(memory)
        self._finalizer = weakref.finalize(self, _stop, self._processes, self._connections)
        self.patience = self.start_patience
        for w, rows in enumerate(self.rows):
            block = (settings, [variants[r] for r in rows], seed, rows[0], total, begin)
            self._send(w, pickle.dumps(block))
        self.patience = self.usual_patience
        self._steps = dict.fromkeys(range(k), STEP)
        self._building = list(range(k))  # their first word is waited for when something is asked
        self._asked: Mapping[int, bytes] = {}  # orders whose answers were not read yet

    @property
    def patience(self) -> float:
        """Seconds in which a worker must take a message or answer it, else it counts as hung."""
        return self._patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._patience = seconds
        for connection in self._connections:
            _limit(connection, seconds)

    def reset(self, seed: int | None) -> None:
        """A new game everywhere."""
        self._ask(dict.fromkeys(range(len(self.rows)), RESET + pickle.dumps(seed)))
        self._answers()

    def start_step(self) -> None:
        """Let every worker play the shared actions."""
        self._ask(self._steps)

    def finish_step(self) -> dict[int, dict[str, Any]]:
        """Wait for the step; returns the infos of the episodes that ended, by row."""
        ended: dict[int, dict[str, Any]] = {}
        for infos in self._answers():
            ended.update(infos or {})
        return ended

    def call(self, name: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a block's method for each argument tuple, in the workers that own the rows."""
        shares: dict[int, list[int]] = {}
        for position, arguments in enumerate(calls):
            shares.setdefault(self._owner[arguments[0]], []).append(position)
        self._ask(
            {
                w: CALL + pickle.dumps((name, [calls[p] for p in positions]))
                for w, positions in shares.items()
            }
        )
        results: dict[int, Any] = {}
        for positions, answers in zip(shares.values(), self._answers(), strict=True):
            results.update(zip(positions, answers, strict=True))
        return [results[p] for p in range(len(calls))]

    def close(self) -> None:
        """Stop every process; returns within seconds whatever state they are in."""
        self._finalizer()

    def _ask(self, orders: Mapping[int, bytes]) -> None:
        """Give workers their orders; an interruption before the last answer closes everything."""
        self._require_open()
        try:
            if self._asked:
                raise WorkerError("the environment was interrupted and is closed.")
            while self._building:
                refused = self._answer(self._building.pop(0), self.start_patience)
                if refused is not None:
                    raise refused
            self._asked = orders
            for w, order in orders.items():
                self._send(w, order)
        except BaseException:
            self.close()
            raise

    def _answers(self) -> list[Any]:
        """What the workers that were asked answer; all of it is read before a refusal is raised."""
        self._require_open()
        try:
            found = [self._answer(w, self.patience) for w in self._asked]
        except BaseException:
            self.close()  # a later question would be given the answer to this one
            raise
        self._asked = {}
        for answer in found:
            if isinstance(answer, Exception):
                raise answer
        return found

    def _send(self, w: int, message: bytes) -> None:
        try:
            self._connections[w].send_bytes(message)
        except BlockingIOError:
            self._hung(w, self.patience)
        except OSError:
            self._died(w)

    def _answer(self, w: int, patience: float) -> Any:
        """One worker's answer; where it refuses, the exception that says why."""
        connection = self._connections[w]
        try:
            if not connection.poll(patience):
                self._hung(w, patience)
            reply = connection.recv_bytes()
        except BlockingIOError:
            self._hung(w, self.patience)
        except (EOFError, OSError):
            self._died(w)
        kind, payload = reply[:1], reply[1:]
        if kind == DONE:
            # from a worker of ours, through a socket that nobody else holds
            return pickle.loads(payload) if payload else None  # noqa: S301
        if kind == REFUSED:
            return UserError(payload.decode())
        if kind == MISSING:
            return AttributeError(payload.decode())
        self.close()
        raise WorkerError(f"{self._name(w)} raised:\n{payload.decode()}")

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise WorkerError("the environment is closed.")

    def _hung(self, w: int, patience: float) -> NoReturn:
        self.close()
        raise WorkerLost(f"{self._name(w)} has not answered for {patience:g} s.") from None

    def _died(self, w: int) -> NoReturn:
        try:
            code: int | None = self._processes[w].wait(timeout=2)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        if code is None:
            how = "closed its connection"
        elif code < 0:
            how = f"died of {signal.Signals(-code).name} (exit code {code})"
        else:
            how = f"ended with exit code {code}"
        raise WorkerLost(f"{self._name(w)} {how}.") from None

    def _name(self, w: int) -> str:
        rows = self.rows[w]
        return f"environment worker {w} (environments {rows[0]} to {rows[-1]})"


def _anonymous_file(size: int) -> int:
    """A file descriptor of shared memory without a name in any file system."""
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("reprl")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    os.ftruncate(memory, size)
    return memory


def _spawn(theirs: socket.socket, memory: int) -> subprocess.Popen[bytes]:
    """Start one worker: a plain command, so that the user's script needs no __main__ guard."""
    descriptors = (theirs.fileno(), memory)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(search_path()),
        **trust.environment(),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    # -P: a numpy.py in the working folder must not stand in for the real one
    command = [sys.executable, "-P", "-m", "reprl.envs.worker", *map(str, descriptors)]
    # Blocked until the worker ignores them: a signal to the group must not end it before that.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        with theirs:
            return subprocess.Popen(
                command, pass_fds=descriptors, env=environment, stdin=subprocess.DEVNULL
            )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def search_path() -> list[str]:
    """Where this process finds modules; the working folder of an interactive one comes last."""
    found = [p for p in sys.path if p]
    return found if len(found) == len(sys.path) else [*found, os.getcwd()]


def _limit(connection: Connection, seconds: float) -> None:
    """Let reading and writing raise BlockingIOError where nothing moves for so long."""
    span = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            same.setsockopt(socket.SOL_SOCKET, option, span)


def _stop(processes: list[subprocess.Popen[bytes]], connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()  # a worker that waits for orders ends with it
    deadline = time.monotonic() + 1.0
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
