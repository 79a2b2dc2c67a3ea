"""How the ranks' numbers travel: through shared memory on one machine, else through gloo.

Both give every rank the same bits, whoever comes first.
"""

from __future__ import annotations

import mmap
import os
import platform
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from reprl.distributed.pulse import SILENCE, Pulse

PATIENCE = 20.0  # seconds until a rank that does not come counts as hung
STARTING = 600.0  # the same while the ranks compile
SPINS = 2000  # looks before a rank that waits gives its core away
NAP = 2e-4  # seconds between two looks after that
LINE = 8  # int64 counters that fill one cache line
SMALL = 4096  # doubles that a rank may say at once


class RankLost(Exception):
    """Another rank does not answer: it died, hangs or cannot be reached."""


def silent(rank: int) -> str:
    return f"rank {rank} hangs: no sign of life for {SILENCE:.0f} s"


class Exchange(Protocol):
    """Sums and small gathers over the ranks; every rank calls in the same order."""

    patience: float

    def add(self, parts: Sequence[Tensor]) -> None:
        """Replace float32 tensors by their sums over the ranks."""

    def gather(self, values: np.ndarray, *, patient: bool = False) -> np.ndarray:
        """What each rank says: float64 (k,) -> (ranks, k); `patient` waits as long as it takes."""


class Collective:
    """Over torch.distributed (gloo, or NCCL between GPUs), on one machine or several."""

    def __init__(self, rank: int, size: int, store: dist.Store, pulse: Pulse | None = None) -> None:
        self.rank, self.size, self.store, self.pulse = rank, size, store, pulse
        self.patience = STARTING
        self._meetings = 0

    def add(self, parts: Sequence[Tensor]) -> None:
        flat = torch.cat([part.reshape(-1) for part in parts])
        with answered():
            dist.all_reduce(flat)
        for part, total in zip(parts, flat.split([p.numel() for p in parts]), strict=True):
            part.copy_(total.view_as(part))

    def gather(self, values: np.ndarray, *, patient: bool = False) -> np.ndarray:
        if patient:
            self._meet()
        ours = torch.from_numpy(np.asarray(values, np.float64))
        found = [torch.empty_like(ours) for _ in range(self.size)]
        with answered():
            dist.all_gather(found, ours)
        return torch.stack(found).numpy()

    def _meet(self) -> None:
        """Wait for all ranks as long as they live: one may be playing or writing for minutes."""
        self._meetings += 1
        key, wanted = f"meeting/{self._meetings}", self.size
        with answered():
            there = self.store.add(key, 1)
            while there < wanted:
                time.sleep(0.002)
                there = self.store.add(key, 0)
                if self.pulse is not None and (mute := self.pulse.hung()) is not None:
                    raise RankLost(silent(mute))


class SharedMemory:
    """Over memory that all ranks of this machine have mapped, of which each writes its own part.

    Twice a counter each: "what I say is written", then "my part of the sum is written". A rank
    that has seen all counters at the second stage may write again.
    """

    def __init__(self, rank: int, size: int, memory: int, numbers: int, *, create: bool) -> None:
        self.rank, self.size, self.patience = rank, size, STARTING
        self.numbers = numbers
        counters, small = size * LINE, size * SMALL
        if create:
            os.ftruncate(memory, 8 * (counters + small) + 4 * numbers * (size + 1))
        self._map = mmap.mmap(memory, 0)
        whole = np.frombuffer(self._map, np.int64, counters)
        self._stages = whole.reshape(size, LINE)[:, 0]
        self._small = np.frombuffer(self._map, np.float64, small, 8 * counters).reshape(size, SMALL)
        floats = np.frombuffer(self._map, np.float32, -1, 8 * (counters + small))
        bucket = torch.from_numpy(floats).view(size + 1, numbers)
        self._shares, self._sum = bucket[:size], bucket[size]
        self._stage = 0

    def add(self, parts: Sequence[Tensor]) -> None:
        counts = [part.numel() for part in parts]
        total = sum(counts)
        if total > self.numbers:
            raise RuntimeError(f"{total} numbers do not fit into a bucket of {self.numbers}")
        share = self._shares[self.rank]
        views = [v.view(p.shape) for v, p in zip(share[:total].split(counts), parts, strict=True)]
        torch._foreach_copy_(views, list(parts))
        self._reach()
        begin, end = (total * r // self.size for r in (self.rank, self.rank + 1))
        chunk = self._sum[begin:end]
        chunk.copy_(self._shares[0, begin:end])
        for other in range(1, self.size):
            chunk.add_(self._shares[other, begin:end])
        self._reach()
        sums = self._sum[:total].split(counts)
        back = [v.view(p.shape) for v, p in zip(sums, parts, strict=True)]
        torch._foreach_copy_(list(parts), back)

    def gather(self, values: np.ndarray, *, patient: bool = False) -> np.ndarray:
        count = len(values)
        if count > SMALL:
            raise RuntimeError(f"{count} numbers are too many to say at once")
        self._small[self.rank, :count] = values
        self._reach(patient=patient)
        found = self._small[:, :count].copy()
        self._reach(patient=patient)
        return found

    def _reach(self, *, patient: bool = False) -> None:
        """Say that this rank has done its part, and wait until all have."""
        self._stage += 1
        self._stages[self.rank] = self._stage
        waited, looks = 0.0, 0
        while (self._stages < self._stage).any():
            looks += 1
            if looks < SPINS:
                os.sched_yield()
                continue
            began = time.monotonic()
            time.sleep(NAP)
            # a run that was suspended meanwhile has not waited
            waited += min(time.monotonic() - began, 100 * NAP)
            if waited > self.patience and not patient:
                late = np.flatnonzero(self._stages < self._stage).tolist()
                raise RankLost(f"rank {late[0]} has not answered for {self.patience:g} s")


class answered:  # reads as a word of the with statement
    """Turn what gloo raises where another rank is gone into RankLost."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RuntimeError):
            reason = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise RankLost(f"another rank does not answer ({reason[:120]})") from error


def ordered() -> bool:
    """Whether this machine shows one core's writes to another in the order they were made."""
    return platform.machine().lower() in ("x86_64", "amd64", "i686")
