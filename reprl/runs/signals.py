"""Signals during training: remembered, and acted upon where the state is whole."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

EXIT_CODES = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR2: 143}
STOPS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # what tells a sweep to stop


def is_ignored(number: signal.Signals) -> bool:
    """Whether whoever started this process wants it to outlive a closed terminal, as nohup does."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


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
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in EXIT_CODES:
            if not is_ignored(number):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
