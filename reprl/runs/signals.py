"""Signals of training and sweeps: remembered, and acted upon where the state is whole."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

EXIT_CODES = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR2: 143}
STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # what tells a sweep to stop


def is_ignored(number: signal.Signals) -> bool:
    """Whether whoever started this process wants it to outlive a closed terminal, as nohup does."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


@contextmanager
def handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], Any]
) -> Iterator[None]:
    """While entered, these signals go to the handler, but for one that is to be ignored."""
    taken = [number for number in numbers if not is_ignored(number)]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Interrupted(Exception):
    """Training stopped at a signal, after a checkpoint."""

    def __init__(self, number: int) -> None:
        self.number = signal.Signals(number)
        self.exit_code = EXIT_CODES[self.number]
        super().__init__(f"stopped by {self.number.name}")


class Interrupts:
    """While entered, the first signal is remembered; a second Ctrl-C ends the process at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._handled = handled(EXIT_CODES, self._remember)

    def __enter__(self) -> Interrupts:
        self._handled.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._handled.__exit__(*error)

    def __call__(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
