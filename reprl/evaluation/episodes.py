"""Where games are evaluated: slots of emulators that play a fixed list of games to their ends.

A slot takes the next game of the list when its own is over, and every game of the list is finished:
how long a game lasts has no influence on whether it counts. A game is determined by the agent, the
variant and the task's seeds alone, never by the slot or the process that plays it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from reprl.envs import make_vec_env
from reprl.envs.protocol import GameVecEnv
from reprl.evaluation.players import Agent, Task

FRAME_LIMIT = 108_000  # frames: 30 minutes of play, ALE's usual limit
STUCK_AFTER = 4_500  # agent steps, 5 minutes of play, without a point or a lost life


class Waiting(Protocol):
    """The games that nobody has begun; several processes may take from one list."""

    def __len__(self) -> int: ...

    def popleft(self) -> Task:
        """The next one; IndexError where another process was faster."""


@dataclass(frozen=True)
class FinishedGame:
    """One finished game."""

    task: Task
    score: float
    frames: int
    steps: int
    end: str  # game_over, frame_limit or stuck
    trajectory: str  # a digest of all actions, rewards and lives: equal for copies of one game


class Arena:
    """Emulators in one or two groups; with worker processes one group steps as the other thinks."""

    def __init__(
        self,
        *,
        n_envs: int = 32,
        workers: int = 0,
        sticky: float = 0.0,
        frame_limit: int = FRAME_LIMIT,
        stuck_after: int = STUCK_AFTER,
        **settings: Any,
    ) -> None:
        count = 2 if workers > 1 and n_envs > 1 else 1
        self._groups: list[_Group] = []
        try:
            for k in range(count):
                slots = (n_envs + k) // count
                env = make_vec_env(
                    n_envs=slots,
                    workers=min((workers + k) // count, slots),
                    training=False,
                    sticky=sticky,
                    max_frames=frame_limit,
                    **settings,
                )
                self._groups.append(_Group(env, stuck_after))
        except BaseException:
            self.close()
            raise

    @property
    def action_space(self) -> spaces.Space[Any]:
        return self._groups[0].env.action_space

    def play(self, agent: Agent, tasks: Iterable[Task] | Waiting) -> Iterator[FinishedGame]:
        """Play all tasks; games come as they end, so only the whole list is without bias."""
        waiting: Waiting
        waiting = deque(tasks) if isinstance(tasks, Iterable) else tasks
        for slot in range(max(group.env.num_envs for group in self._groups)):
            for group in self._groups:
                group.prepare(slot, waiting)
        playing = [group for group in self._groups if group.begin()]
        for group in playing:
            group.send(agent)
        while playing:
            for group in list(playing):
                yield from group.receive(waiting)
                if group.busy:
                    group.send(agent)
                else:
                    playing.remove(group)

    def close(self) -> None:
        """Stop the emulators."""
        for group in self._groups:
            group.env.close()

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _Slot:
    """The game one emulator is playing, and the one queued behind it."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.coming: Task | None = None

    def begin(self) -> None:
        self.task, self.coming = self.coming, None
        self.steps = self.quiet = 0
        self.lives: int | None = None
        self.digest = hashlib.blake2b(digest_size=8)
        if self.task is not None:
            self.uniforms = self.task.uniforms()

    def note(self, action: Any, reward: float, lives: int) -> None:
        self.steps += 1
        self.quiet = self.quiet + 1 if reward == 0 and lives == self.lives else 0
        self.lives = lives
        played = action.tobytes() if np.ndim(action) else b"%d" % int(action)
        self.digest.update(b"%b %g %d," % (played, reward, lives))


class _Group:
    """The slots of one vector environment, stepped together."""

    def __init__(self, env: GameVecEnv, stuck_after: int) -> None:
        self.env = env
        self.stuck_after = stuck_after
        self.slots = [_Slot() for _ in range(env.num_envs)]

    @property
    def busy(self) -> bool:
        return any(slot.task for slot in self.slots)

    def prepare(self, index: int, waiting: Waiting) -> None:
        """Queue the next game of the list behind the slot's own, if there is one."""
        if index < len(self.slots) and self.slots[index].coming is None and waiting:
            try:
                task = waiting.popleft()
            except IndexError:  # another process has taken the last
                return
            self.slots[index].coming = task
            self.env.queue(index, task.game_seed, task.variant)

    def begin(self) -> bool:
        for slot in self.slots:
            slot.begin()
        if self.busy:
            self.observations = self.env.reset()  # (n, stack, size, size) uint8
        return self.busy

    def send(self, agent: Agent) -> None:
        """Choose the actions and let the emulators play them."""
        uniforms = np.array([slot.uniforms.random() if slot.task else 0.0 for slot in self.slots])
        tasks = [slot.task for slot in self.slots]
        actions = agent.act(self.observations, self.env.objects, uniforms, tasks)
        plays = np.array([task is not None for task in tasks])
        # what leaves an environment as it is: -1, and of continuous actions what is no number
        still = -1 if actions.ndim == 1 else np.float32(np.nan)
        self.actions = np.where(plays.reshape(-1, *[1] * (actions.ndim - 1)), actions, still)
        self.env.step_async(self.actions)

    def receive(self, waiting: Waiting) -> Iterator[FinishedGame]:
        """Finish the step; gives the games that ended with it."""
        observations, _, dones, infos = self.env.step_wait()
        assert isinstance(observations, np.ndarray)
        self.observations = observations
        for index, slot in enumerate(self.slots):
            if slot.task is None:
                continue
            info = infos[index]
            slot.note(self.actions[index], info["raw_reward"], info["lives"])
            if dones[index]:
                end = "frame_limit" if info["TimeLimit.truncated"] else "game_over"
                yield self._finished(slot, end, info["episode"]["r"], info["episode"]["l"])
                self._next(index, waiting, started=slot.coming is not None)
            elif slot.quiet >= self.stuck_after:
                score, frames = self.env.standing(index)
                yield self._finished(slot, "stuck", score, frames)
                self._next(index, waiting, started=False)
            elif info["lives"] <= 1:
                # The emulator goes on to the next game by itself, so the game must be queued
                # before the last life ends; earlier, and it would wait behind a long game.
                self.prepare(index, waiting)

    def _finished(self, slot: _Slot, end: str, score: float, frames: int) -> FinishedGame:
        assert slot.task is not None
        digest = slot.digest.hexdigest()
        return FinishedGame(slot.task, float(score), int(frames), slot.steps, end, digest)

    def _next(self, index: int, waiting: Waiting, *, started: bool) -> None:
        """Go on to the slot's next game, which the emulator may have started already."""
        self.prepare(index, waiting)
        self.slots[index].begin()
        if not started and self.slots[index].task is not None:
            self.observations[index] = self.env.restart(index)
