"""How far an evaluation is: a line that draws over itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import IO, Any

from reprl.escaping import shown
from reprl.evaluation.episodes import Game
from reprl.runs.progress import duration

EVERY = {True: 0.2, False: 20.0}  # seconds between two lines: on a terminal, and elsewhere


class Meter:
    """Counts finished games and estimates the time left from them."""

    def __init__(
        self, title: str, total: int, *, mode: str = "auto", file: IO[str] | None = None
    ) -> None:
        self.title, self.total = shown(title), total
        self.file = sys.stderr if file is None else file
        self.off = mode == "off"
        self.games = self.steps = 0

    def __enter__(self) -> Meter:
        self.began = self.shown = time.monotonic()
        return self

    def __exit__(self, *_: Any) -> None:
        if not self.off:
            self._write(end="\n")

    def count(self, game: Game) -> None:
        """One more game is over."""
        self.games += 1
        self.steps += game.steps
        if not self.off and time.monotonic() - self.shown > EVERY[self.file.isatty()]:
            self._write(end="" if self.file.isatty() else "\n")

    def line(self) -> str:
        """Games, speed, and the time the remaining games would take at this pace."""
        elapsed = max(time.monotonic() - self.began, 1e-9)
        text = f"{self.title}: {self.games}/{self.total} games, {self.steps / elapsed:,.0f} steps/s"
        if 0 < self.games < self.total:
            left = elapsed / self.games * (self.total - self.games)
            return f"{text}, about {duration(left)} left"
        return f"{text}, {duration(elapsed)}"

    def _write(self, *, end: str) -> None:
        self.shown = time.monotonic()
        start = "\r\x1b[K" if self.file.isatty() else ""
        print(start + self.line(), end=end, file=self.file, flush=True)
