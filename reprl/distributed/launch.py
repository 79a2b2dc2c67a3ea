"""Starts the ranks of a run on this machine, watches them, and ends all when one is lost.

The launcher is the process the user started. It imports no torch, passes signals on, and holds one
end of a pipe to every rank: a rank that falls silent is hung, and ranks whose launcher is gone end
themselves, so nothing is ever left behind.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from reprl import trust
from reprl.distributed.environment import BEAT, LISTEN, LOST, MEMORY
from reprl.runs.folder import RunFolder, now
from reprl.runs.signals import EXIT_CODES, handled

SILENCE = 20.0  # seconds without a sign of life
STARTING = 120.0  # the same until the first one
GRACE = 4.0  # seconds in which the others may end after one has
TICK = 0.2
PROGRAM = (sys.executable, "-P", "-m", "reprl")
KEPT = 4000  # characters of what a rank has said on stderr


class Rank:
    """One process of the run, seen from outside."""

    def __init__(self, number: int, process: subprocess.Popen[bytes], beat: int) -> None:
        self.number, self.process, self.beat = number, process, beat
        self.killed_here = False  # by the launcher, after another was lost
        self.alive = False  # it has shown itself
        self.silent = 0.0  # seconds, counted while the launcher itself was awake
        self.said = ""
        self.lines = ""

    def ended(self) -> int | None:
        return self.process.poll()

    def how(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if code == -signal.SIGKILL:
            return "was killed by SIGKILL (by hand, or because memory ran out)"
        if code < 0:
            return f"died of {signal.Signals(-code).name}"
        last = self.said.strip().splitlines()
        return f"ended with exit code {code}" + (f" ({last[-1].strip()[:300]})" if last else "")


class RankLauncher:
    """N ranks of one command."""

    def __init__(
        self, arguments: Sequence[str], ranks: int, *, program: Sequence[str] = PROGRAM
    ) -> None:
        self.program = program
        self.folder: Path | None = None
        self.signal: int | None = None
        self.selector = selectors.DefaultSelector()
        self.ranks: list[Rank] = []
        self.lost: str | None = None  # why the run was ended from here
        with ExitStack() as stack:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            memory = os.memfd_create("reprl") if hasattr(os, "memfd_create") else None
            if memory is not None:
                stack.callback(os.close, memory)
            for number in range(ranks):
                self.ranks.append(self._start(number, ranks, arguments, listening, memory))

    def _start(
        self,
        number: int,
        ranks: int,
        arguments: Sequence[str],
        listening: socket.socket,
        memory: int | None,
    ) -> Rank:
        reading, writing = os.pipe()
        shared = [writing] + ([memory] if memory is not None else [])
        environment = {
            **os.environ,
            **trust.environment(),
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(listening.getsockname()[1]),
            BEAT: str(writing),
            LISTEN: str(listening.fileno()),
        }
        if sys.platform == "linux":
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if memory is not None:
            environment[MEMORY] = str(memory)
        if number == 0:
            shared.append(listening.fileno())
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} if number else {}
        try:
            process = subprocess.Popen(
                [*self.program, *arguments],
                env=environment,
                pass_fds=shared,
                process_group=0,  # Ctrl-C is for the launcher, which passes it on once
                **quiet,  # type: ignore[call-overload]
            )
        finally:
            os.close(writing)
        rank = Rank(number, process, reading)
        os.set_blocking(reading, False)
        self.selector.register(reading, selectors.EVENT_READ, (rank, "beat"))
        if process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
            self.selector.register(process.stderr, selectors.EVENT_READ, (rank, "stderr"))
        return rank

    def run(self) -> int:
        """Watch until all have ended; the exit code of the run."""
        try:
            with (
                handled(EXIT_CODES, self._pass_on),
                handled([signal.SIGTSTP], self._suspend),
            ):
                self._watch()
        finally:
            self._kill()
            self._listen(0.0)
            self.selector.close()
            for rank in self.ranks:
                os.close(rank.beat)
                if rank.process.stderr is not None:
                    rank.process.stderr.close()
        return self._verdict()

    def _watch(self) -> None:
        ended_at: float | None = None
        while any(rank.ended() is None for rank in self.ranks):
            self._listen(TICK)
            if ended_at is None and (mute := self._hung()) is not None:
                self.lost = f"rank {mute.number} hangs: no sign of life for {mute.silent:.0f} s"
                return
            codes = [rank.ended() for rank in self.ranks]
            if codes[0] is None and all(code in (None, 0) for code in codes):
                continue
            ended_at = time.monotonic() if ended_at is None else ended_at
            # Where rank 0 ends by itself it has said why, and the others are about to end too.
            if time.monotonic() - ended_at > GRACE:
                return

    def _hung(self) -> Rank | None:
        for rank in self.ranks:
            if rank.ended() is None:
                rank.silent += TICK
                if rank.silent > (SILENCE if rank.alive else STARTING):
                    return rank
        return None

    def _listen(self, seconds: float) -> None:
        began = time.monotonic()
        while True:
            left = max(0.0, seconds - (time.monotonic() - began))
            for key, _ in self.selector.select(left):
                rank, what = key.data
                try:
                    data = os.read(key.fd, 65536)
                except BlockingIOError:
                    continue
                if not data:
                    self.selector.unregister(key.fileobj)
                elif what == "stderr":
                    rank.said = (rank.said + data.decode(errors="replace"))[-KEPT:]
                else:
                    self._heard(rank, data.decode(errors="replace"))
            if time.monotonic() - began >= seconds:
                return

    def _heard(self, rank: Rank, text: str) -> None:
        rank.silent, rank.alive = 0.0, True
        *whole, rank.lines = (rank.lines + text).split("\n")
        for line in whole:
            if rank.number == 0 and line.startswith("folder "):
                self.folder = Path(line.removeprefix("folder "))

    def _verdict(self) -> int:
        first = self.ranks[0].process.returncode
        if self.lost is None:
            if first >= 0 and first != LOST:
                return first  # rank 0 has ended the run and said why
            died = [r for r in self.ranks if r.process.returncode not in (0, LOST)]
            culprit = next((r for r in died if not r.killed_here), None)
            self.lost = (
                f"rank {culprit.number} {culprit.how()}"
                if culprit is not None
                else f"rank {died[0].number} did not answer the others"
                if died
                else "the ranks lost each other"
            )
        reason = f"{self.lost}, and all {len(self.ranks)} ranks were ended."
        if self.folder is None:
            print(f"killed: {reason} Nothing was written.", file=sys.stderr)
            return 1
        RunFolder(self.folder).update(status="killed", reason=reason, ended=now())
        print(f"killed: {reason} `reprl resume {self.folder}` goes on.", file=sys.stderr)
        return 1

    def _kill(self) -> None:
        for rank in self.ranks:
            if rank.ended() is None:
                rank.killed_here = True
                rank.process.kill()
        for rank in self.ranks:
            rank.process.wait()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        for rank in self.ranks:
            if rank.ended() is None:
                rank.process.send_signal(number)

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        for order in (signal.SIGSTOP, signal.SIGCONT):
            for rank in self.ranks:
                if rank.ended() is None:
                    rank.process.send_signal(order)
            if order == signal.SIGSTOP:
                os.kill(os.getpid(), signal.SIGSTOP)  # goes on from here with fg


def supervise(arguments: Sequence[str], ranks: int) -> int:
    """Run a command as so many ranks and return the run's exit code."""
    return RankLauncher(arguments, ranks).run()
