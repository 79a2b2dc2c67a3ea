"""Signs of life between ranks that torchrun has started, where no launcher of ours listens.

Every rank counts up in the store that they share, and looks at the others' counts. A rank that
hangs (stopped, or stuck in a system call) is named, and ended where it is on this machine: torchrun
itself would wait half a minute for a process that takes no signals.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

EVERY = 2.0  # seconds between two signs
SILENCE = 20.0  # without one, counted while this process itself was awake
MOST = 256  # ranks; more would be busy with looking at each other


class Counts(Protocol):
    """The part of torch's Store that is used here."""

    def set(self, key: str, value: str) -> None: ...
    def get(self, key: str) -> bytes: ...
    def add(self, key: str, amount: int) -> int: ...


class Pulse(threading.Thread):
    """This rank's signs, and what it knows of the others'."""

    def __init__(
        self, rank: int, size: int, store: Counts, *, every: float = EVERY, silence: float = SILENCE
    ) -> None:
        super().__init__(daemon=True)
        self.rank, self.store, self.every, self.silence = rank, store, every, silence
        self._others = [r for r in range(size) if r != rank] if size <= MOST else []
        self._counts: dict[int, int] = {}
        self._silent = dict.fromkeys(self._others, 0.0)
        store.set(f"where/{rank}", identity(os.getpid()))

    def run(self) -> None:
        while True:
            try:
                self.beat()
            except RuntimeError:
                return  # the store is gone: what is exchanged next says so
            time.sleep(self.every)

    def beat(self) -> None:
        """Show this rank's life, and look at the others'."""
        self.store.add(f"beat/{self.rank}", 1)
        for other in self._others:
            count = self.store.add(f"beat/{other}", 0)
            alive = count == 0 or count != self._counts.get(other)  # 0: it has not begun
            self._silent[other] = 0.0 if alive else self._silent[other] + self.every
            self._counts[other] = count

    def hung(self) -> int | None:
        """A rank that has given no sign for too long."""
        return next((r for r, silent in self._silent.items() if silent > self.silence), None)

    def end_hung(self, patience: float = 4 * EVERY) -> int | None:
        """Wait a moment for a rank to count as hung, and end it if it is on this machine."""
        deadline = time.monotonic() + patience
        while (found := self.hung()) is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(self.every / 10)
        with suppress(RuntimeError, OSError, ValueError):
            where = self.store.get(f"where/{found}").decode()
            pid = int(where.rpartition(" ")[2])
            if where == identity(pid):  # the same process of the same machine
                os.kill(pid, signal.SIGKILL)
        return found


def identity(pid: int) -> str:
    """Names a process among all machines: boot, namespace, the moment it began, its number.

    Without /proc nothing that another process could be taken for.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
        began = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return f"unknown {os.getpid()}.{time.monotonic_ns()} {pid}"
    return f"{boot} {space} {began} {pid}"
