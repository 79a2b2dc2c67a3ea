"""Evaluation on all cores: processes that each play games of one list, with a network of their own.

Like `reprl.evaluation.episodes:Arena`, whose games these are: a game is determined by its task, so
who plays it changes nothing. Emulators and network take turns inside a process, and processes wait
for nobody, where emulator workers wait for one network.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from reprl.envs.games import action_space_of
from reprl.envs.processes import WorkerLost
from reprl.envs.worker import IGNORED
from reprl.errors import UserError
from reprl.evaluation.episodes import Arena, FinishedGame
from reprl.evaluation.players import Agent, ModelAgent, Task


class ParallelArena:
    """Plays lists of games in `players` processes, forked when the agent is known."""

    def __init__(self, *, n_envs: int, players: int, game: str, **settings: Any) -> None:
        self.players = min(players, n_envs)
        self.n_envs = n_envs
        self.action_space = action_space_of(game, settings.get("continuous", False))
        self.settings = {"game": game, **settings}

    def play(self, agent: Agent, tasks: Iterable[Task]) -> Iterator[FinishedGame]:
        """Play all tasks; games come as they end, so only the whole list is without bias."""
        listed = list(tasks)
        # As torch's own data loaders do: children of this process, with one thread each.
        context = multiprocessing.get_context("fork")
        taken = context.Value("l", 0)
        count = min(self.players, len(listed))
        started, open_ends = [], {}
        for number in range(count):
            ours, theirs = context.Pipe(duplex=False)
            slots = min((self.n_envs + number) // count, -(-len(listed) // count))
            process = context.Process(
                target=_player,
                args=(theirs, agent, listed, taken, slots, self.settings, os.getpid()),
                daemon=True,
            )
            process.start()
            theirs.close()
            started.append(process)
            open_ends[ours] = process
        try:
            yield from _results(open_ends, listed)
        finally:
            for process in started:
                process.kill()
                process.join()
            for end in open_ends:
                end.close()

    def close(self) -> None:
        """Nothing is kept between two lists."""


class _Shared:
    """The games that nobody has begun, handed out over all processes in the list's order."""

    def __init__(self, tasks: list[Task], taken: Any) -> None:
        self.tasks, self.taken = tasks, taken

    def __len__(self) -> int:
        return max(0, len(self.tasks) - int(self.taken.value))

    def popleft(self) -> Task:
        with self.taken.get_lock():
            place = self.taken.value
            self.taken.value += 1
        if place >= len(self.tasks):
            raise IndexError("the list is empty")
        return self.tasks[place]


def _player(
    end: Connection,
    agent: Agent,
    tasks: list[Task],
    taken: Any,
    slots: int,
    settings: dict[str, Any],
    parent: int,
) -> None:
    """A child: play until the list is empty, and send what each game came to."""
    for number in IGNORED:  # Ctrl-C reaches the whole group; the parent decides
        signal.signal(number, signal.SIG_IGN)
    place = {task.key: index for index, task in enumerate(tasks)}
    try:
        if "torch" in sys.modules:
            import torch

            torch.set_num_threads(1)
        with Arena(n_envs=slots, workers=0, **settings) as arena:
            for game in arena.play(agent, _Shared(tasks, taken)):  # type: ignore[arg-type]
                if os.getppid() != parent:
                    break
                whole = (game.score, game.frames, game.steps, game.end, game.trajectory)
                end.send(("game", place[game.task.key], whole))
        end.send(("done", 0, ()))
    except UserError as error:
        with suppress(OSError):
            end.send(("refused", 0, (str(error),)))
    except BaseException as error:
        with suppress(OSError):
            end.send(("failed", 0, (f"{type(error).__name__}: {error}",)))
    os._exit(0)  # not the parent's farewells: they are not this process's to say


def _results(ends: dict[Connection, Any], tasks: list[Task]) -> Iterator[FinishedGame]:
    playing = set(ends)
    while playing:
        for end in wait(list(playing)):
            assert isinstance(end, Connection)
            try:
                kind, place, values = end.recv()
            except (EOFError, OSError):
                process = ends[end]
                process.join(2)
                raise WorkerLost(
                    f"a process that plays games died (exit code {process.exitcode})."
                ) from None
            if kind == "game":
                yield FinishedGame(tasks[place], *values)
            elif kind == "done":
                playing.remove(end)
            elif kind == "refused":
                raise UserError(*values)
            else:
                raise RuntimeError(f"a process that plays games failed: {values[0]}")


def can_fork(agent: Agent) -> bool:
    """Whether children of this process can play with the agent: a GPU's memory is not theirs."""
    if not isinstance(agent, ModelAgent):
        return hasattr(os, "fork")
    return hasattr(os, "fork") and str(agent.policy.device) == "cpu"
