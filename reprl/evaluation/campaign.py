"""Evaluates whole folders: plays what is missing under one protocol, stores what is complete."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from reprl import tables
from reprl.envs import Variant
from reprl.envs.defaults import DEFAULT_GAME
from reprl.escaping import shown
from reprl.evaluation.episodes import Arena, FinishedGame
from reprl.evaluation.evaluate import distinct_games, fitted, table
from reprl.evaluation.parallel import ParallelArena, can_fork
from reprl.evaluation.players import Agent, Task
from reprl.evaluation.variants import label
from reprl.game_seeds import whose_games
from reprl.runs.progress import duration
from reprl.schema import EPISODES

EVERY = {True: 0.2, False: 20.0}  # seconds between two lines: on a terminal, and elsewhere


@dataclass(frozen=True)
class Protocol:
    """What every agent must play; `games` are each training seed's own or shared by all runs."""

    variants: tuple[Variant, ...]
    episodes: int
    seed: int = 0
    sticky: float = 0.0
    games: str = "own"

    def tasks(self, train_seed: int = -1) -> list[Task]:
        """The fixed list of games of a training seed, variant by variant."""
        whose = whose_games(self.games, train_seed)
        episodes = range(self.episodes)
        return [Task(v, e, self.seed, whose) for v in self.variants for e in episodes]

    def of(self, frame: pd.DataFrame, train_seed: int = -1) -> pd.DataFrame:
        """The rows that belong to this protocol, with the variants' labels as `variant`."""
        parts = []
        seeds = {task.game_seed for task in self.tasks(train_seed)}
        for variant in self.variants:
            same = frame["variant"] == variant.name
            level = frame["severity"]
            same &= level.isna() if variant.severity is None else level == variant.severity
            same &= (frame["eval_seed"] == self.seed) & (frame["sticky"] == self.sticky)
            same &= (frame["episode"] < self.episodes) & frame["game_seed"].isin(seeds)
            parts.append(frame[same].assign(variant=label(variant)))
        return pd.concat(parts, ignore_index=True)


class Campaign:
    """Plays one agent after the other in the same emulators."""

    def __init__(
        self, protocol: Protocol, *, n_envs: int, workers: int, progress: str = "auto"
    ) -> None:
        self.protocol = protocol
        self.n_envs, self.workers, self.progress = n_envs, workers, progress
        self.distinct: dict[str, dict[str, int]] = {}  # method and run -> variant -> games
        self._arena: Arena | ParallelArena | None = None
        self._settings: dict[str, Any] = {}

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()

    def _close(self) -> None:
        if self._arena is not None:
            self._arena.close()
            self._arena = None

    def lacking(
        self, path: Path, *, method: str, step: int, train_seed: int, deterministic: bool
    ) -> int:
        """How many of the protocol's games a file does not have yet."""
        same: dict[str, Any] = {"method": method, "step": step, "deterministic": deterministic}
        tasks = self.protocol.tasks(train_seed)
        there = tables.read(path, EPISODES)[0]
        return len(missing(there, tasks, sticky=self.protocol.sticky, **same))

    def measure(
        self,
        path: Path,
        make_agent: Callable[[], Agent],
        settings: dict[str, Any],
        *,
        method: str,
        step: int = 0,
        train_seed: int = -1,
        deterministic: bool = False,
    ) -> pd.DataFrame:
        """Bring the file up to the protocol; returns the agent's rows in it."""
        there, damaged = tables.read(path, EPISODES)
        if damaged:
            print(
                f"WARNING: {path}: {damaged} damaged rows are left out and played again.",
                file=sys.stderr,
            )
        same: dict[str, Any] = {
            "method": method,
            "deterministic": deterministic,
            "sticky": self.protocol.sticky,
        }
        wanted = self.protocol.tasks(train_seed)
        tasks = missing(there, wanted, step=step, **same)
        if tasks:
            agent = make_agent()
            if agent.labels["step"] != step:  # a damaged newest checkpoint gave way to an older
                step = int(agent.labels["step"])
                tasks = missing(there, wanted, step=step, **same)
            try:
                there = self._play(path, there, agent, tasks, settings)
            except BaseException:
                self._close()  # games it had begun must not wait for the next agent
                raise
        rows = self.protocol.of(there, train_seed)
        rows = rows[(rows["method"] == method) & (rows["step"] == step)]
        return rows[rows["deterministic"] == deterministic].reset_index(drop=True)

    def _play(
        self,
        path: Path,
        there: pd.DataFrame,
        agent: Agent,
        tasks: list[Task],
        settings: dict[str, Any],
    ) -> pd.DataFrame:
        arena = self._arena_for(settings, parallel=can_fork(agent))
        games: list[FinishedGame] = []
        with Meter(str(agent.labels["run"]), len(tasks), mode=self.progress) as meter:
            for game in arena.play(fitted(agent, arena.action_space), tasks):
                games.append(game)
                meter.count(game)
                variant = game.task.variant
                done = [g for g in games if g.task.variant == variant]
                if len(done) == sum(t.variant == variant for t in tasks):
                    # Never part of a variant: the games that end first are the short ones.
                    done.sort(key=lambda g: g.task.episode)
                    there = tables.merge(path, table(done, agent, self.protocol.sticky), EPISODES)
        name = f"{agent.labels['method']} ({agent.labels['run']})"
        self.distinct[name] = distinct_games(games)
        return there

    def _arena_for(self, settings: dict[str, Any], *, parallel: bool) -> Arena | ParallelArena:
        parallel = parallel and self.workers > 1
        same = settings == self._settings and isinstance(self._arena, ParallelArena) == parallel
        if self._arena is None or not same:
            self._close()
            n_envs = min(self.n_envs, len(self.protocol.tasks()))
            sticky = self.protocol.sticky
            workers = min(self.workers, n_envs)
            options = {"n_envs": n_envs, "sticky": sticky, "game": DEFAULT_GAME, **settings}
            self._arena = (
                ParallelArena(players=workers, **options)
                if parallel
                else Arena(workers=workers, **options)
            )
            self._settings = settings
        return self._arena


def missing(
    there: pd.DataFrame,
    tasks: Iterable[Task],
    *,
    method: str,
    step: int,
    deterministic: bool,
    sticky: float,
) -> list[Task]:
    """The tasks that have no row yet under this protocol."""
    known = set(tables.keys(there, EPISODES))

    def key(task: Task) -> tuple[Any, ...]:
        game = (task.variant.name, task.variant.severity, task.episode, task.seed, task.game_seed)
        return tables.key_of((method, step, *game, deterministic, sticky), EPISODES)

    return [task for task in tasks if key(task) not in known]


def summary(rows: pd.DataFrame, variants: list[str]) -> list[list[str]]:
    """Mean score and number of games per agent and variant, as text; the header comes first."""
    lines = [["method", "run", *variants]]
    for (method, run), part in rows.groupby(["method", "run"], sort=False):
        cells = []
        for variant in variants:
            scores = part.loc[part["variant"] == variant, "episode_return"]
            cells.append(f"{scores.mean():.1f} ({len(scores)})" if len(scores) else "-")
        lines.append([str(method), str(run), *cells])
    return lines


class Meter:
    """Counts finished games and says the time left; on a terminal a line draws over itself."""

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

    def count(self, game: FinishedGame) -> None:
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
