"""The worker processes of a vector environment: started, watched, stopped, nothing left behind.

The memory has no name (an unlinked file), and a worker whose socket closes ends itself, so even a
SIGKILL of the parent leaves neither processes nor shared memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from reprl.envs.block import Arrays
from reprl.envs.machine import Settings
from reprl.envs.variation import Variant
from reprl.envs.worker import CALL, DONE, QUIT, REFUSED, RESET, STEP
from reprl.errors import UserError


class WorkerError(RuntimeError):
    """A worker process died, raised or hung; the message names it and its environments."""


class Workers:
    """k processes that share the environments in contiguous blocks."""

    patience = 20.0  # seconds without an answer after which a worker counts as hung
    start_patience = 120.0  # a worker imports and builds its emulators first

    def __init__(self, settings: Settings, variants: list[Variant], seed: int, k: int) -> None:
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
        for w, rows in enumerate(self.rows):
            block = (settings, [variants[r] for r in rows], seed, rows[0], total)
            self._send(w, pickle.dumps(block))
        self._building = set(range(k))  # their first word is waited for when something is asked

    def reset(self, seed: int | None) -> None:
        """A new game everywhere."""
        for w in range(len(self.rows)):
            self._send(w, RESET + pickle.dumps(seed))
        for w in range(len(self.rows)):
            self._answer(w, self.patience)

    def start_step(self) -> None:
        """Let every worker play the shared actions."""
        for w in range(len(self.rows)):
            self._send(w, STEP)

    def finish_step(self) -> dict[int, dict[str, Any]]:
        """Wait for the step; returns the infos of the episodes that ended, by row."""
        ended: dict[int, dict[str, Any]] = {}
        for w in range(len(self.rows)):
            ended.update(self._answer(w, self.patience) or {})
        return ended

    def call(self, name: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a block's method for each argument tuple, in the workers that own the rows."""
        shares: dict[int, list[int]] = {}
        for position, arguments in enumerate(calls):
            shares.setdefault(self._owner[arguments[0]], []).append(position)
        for w, positions in shares.items():
            self._send(w, CALL + pickle.dumps((name, [calls[p] for p in positions])))
        results: dict[int, Any] = {}
        for w, positions in shares.items():
            results.update(zip(positions, self._answer(w, self.patience), strict=True))
        return [results[p] for p in range(len(calls))]

    def close(self) -> None:
        """Stop every process; returns within seconds whatever state they are in."""
        self._finalizer()

    def _send(self, w: int, message: bytes) -> None:
        if not self._finalizer.alive:
            raise WorkerError("the environment is closed.")
        try:
            self._connections[w].send_bytes(message)
        except OSError:
            self._died(w)

    def _answer(self, w: int, patience: float) -> Any:
        if w in self._building:
            self._building.remove(w)
            try:
                self._answer(w, self.start_patience)
            except UserError:
                self.close()
                raise
        connection = self._connections[w]
        try:
            if not connection.poll(patience):
                self.close()
                raise WorkerError(f"{self._name(w)} has not answered for {patience:g} s.")
            reply = connection.recv_bytes()
        except (EOFError, OSError):
            self._died(w)
        kind, payload = reply[:1], reply[1:]
        if kind == DONE:
            return pickle.loads(payload) if payload else None
        if kind == REFUSED:
            raise UserError(payload.decode())
        self.close()
        raise WorkerError(f"{self._name(w)} raised:\n{payload.decode()}")

    def _died(self, w: int) -> None:
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
        raise WorkerError(f"{self._name(w)} {how}.") from None

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
        "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "reprl.envs.worker", *map(str, descriptors)]
    with theirs:
        return subprocess.Popen(
            command, pass_fds=descriptors, env=environment, stdin=subprocess.DEVNULL
        )


def _stop(processes: list[subprocess.Popen[bytes]], connections: list[Connection]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send_bytes(QUIT)
        connection.close()
    for process in processes:
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
