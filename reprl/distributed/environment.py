"""Which rank this process is, as torchrun or our own launcher says in its environment; torch-free.

The names are torchrun's: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Our launcher adds file
descriptors that it shares with the ranks it started on this machine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from reprl.errors import UserError

BEAT = "REPRL_BEAT"  # where a rank tells the launcher that it lives
MEMORY = "REPRL_MEMORY"  # what the ranks of one machine exchange gradients in
LISTEN = "REPRL_LISTEN"  # the socket that rank 0 serves the others on
LOST = 75  # exit code of a rank that ended because another one did not answer


@dataclass(frozen=True)
class Place:
    """This process's place among the ranks."""

    rank: int
    size: int
    address: str
    port: int
    local: int = 0  # its number among the ranks of its machine
    beat: int | None = None
    memory: int | None = None
    listen: int | None = None


def place(environment: Mapping[str, str] | None = None) -> Place | None:
    """The place of this process, or None where nobody has given it one."""
    given = os.environ if environment is None else environment
    if "RANK" not in given or "WORLD_SIZE" not in given:
        return None
    rank, size = _whole(given, "RANK"), _whole(given, "WORLD_SIZE")
    if not 0 <= rank < size:
        raise UserError(f"RANK={rank} must be from 0 to WORLD_SIZE - 1 = {size - 1}.")
    descriptors = {
        field: int(given[name])
        for field, name in (("beat", BEAT), ("memory", MEMORY), ("listen", LISTEN))
        if name in given
    }
    address, port = given.get("MASTER_ADDR", "127.0.0.1"), 0
    if size > 1:
        if "MASTER_PORT" not in given:
            raise UserError("RANK is set but MASTER_PORT is not: start the ranks with torchrun.")
        port = _whole(given, "MASTER_PORT")
    local = _whole(given, "LOCAL_RANK") if "LOCAL_RANK" in given else rank
    return Place(rank, size, address, port, local, **descriptors)


def here_on_machine(ranks: int) -> int:
    """How many of a run's ranks this machine has; torchrun says it in LOCAL_WORLD_SIZE."""
    return _whole(os.environ, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in os.environ else ranks


def own_device(device: str) -> str:
    """The device of this rank: of several ranks that compute on GPUs, each has its own."""
    at = place()
    return f"cuda:{at.local}" if device == "cuda" and at is not None and at.size > 1 else device


def watched() -> bool:
    """Whether a launcher of ours listens to this rank."""
    return (here := place()) is not None and here.beat is not None


def _whole(given: Mapping[str, str], name: str) -> int:
    if not given[name].isdecimal():
        raise UserError(f"{name}={given[name]} in the environment must be a whole number.")
    return int(given[name])


def show_life() -> None:
    """Begin to tell the launcher that this rank lives, if a launcher has started it."""
    if (here := place()) is not None and here.beat is not None:
        Heart(here.beat).start()


class Heart(threading.Thread):
    """Tells the launcher every second that this rank lives, and ends it where nobody listens."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self.descriptor = descriptor

    def run(self) -> None:
        while True:
            try:
                os.write(self.descriptor, b".\n")
            except OSError:
                os._exit(1)  # the launcher is gone: nobody would ever stop this rank
            time.sleep(1.0)
