"""A competent player without training: it reads objects() and plans where paddle and ball meet.

Evaluation, reports and attention tools can be tried on it long before anything is trained, and
its blindness produces the gap between variants that they must then find.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from reprl.envs.objects import Box, Objects
from reprl.errors import UserError, unknown
from reprl.rng import numpy_stream

NOOP, FIRE, RIGHT, LEFT = range(4)
BLINDNESS = ("ball", "distractor", "paddle")

_SKIP = 4  # emulator frames an action lasts
_LEFT_WALL, _RIGHT_WALL = 8, 150  # where the ball's left edge turns
_MEETING = 186  # the ball's upper edge when it first overlaps the paddle
_FASTEST = 9  # pixels a frame that a ball can fly
_SPEED = 5.5  # pixels a frame that a held key moves the paddle, two frames after it is pressed
_AHEAD = 3  # actions planned exactly before the ball arrives
_MOVES = {NOOP: 0, RIGHT: 1, LEFT: -1}
_EFFORT = np.array([0.1, 0.11, 0.12])  # pixels of aim that a move in each action is worth
_KEPT = ("score", "lives", "velocity", "samples", "aim", "moving")  # of a game's memory, plain data
_PLANS = np.array(list(itertools.product((0, 1, -1), repeat=_AHEAD)))  # (27, 3)


class _Eye:
    """What the player remembers of one game."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.score = self.lives = 0
        self.ball: Box | None = None
        self.velocity: tuple[float, float] | None = None  # pixels a frame
        self.samples = 0  # steps of straight flight behind the velocity
        self.aim = 0.0  # where on the paddle the ball shall fall, from its middle
        self.moving = 0  # the previous action's direction: half of its way is still to come

    def watch(self, ball: Box | None) -> None:
        """Take in where the ball is one step later."""
        before, self.ball = self.ball, ball
        if ball is None or before is None:
            self.velocity, self.samples = None, 0
            return
        dx, dy = (ball.x - before.x) / _SKIP, (ball.y - before.y) / _SKIP
        if max(abs(dx), abs(dy)) > _FASTEST:  # not the same thing as before
            self.velocity, self.samples = None, 0
            return
        if self.velocity is not None:
            vx, vy = self.velocity
            if abs(dx - vx) <= 0.75 and abs(dy - vy) <= 0.75:
                self.samples += 1
                share = 1 / self.samples
                self.velocity = vx + share * (dx - vx), vy + share * (dy - vy)
                return
            if abs(abs(dy) - abs(vy)) <= 0.75 and dy * vy > 0 and abs(dx) <= abs(vx) + 0.75:
                # It turned at a side wall within this step: the speed stays, the side changes.
                middle = (_LEFT_WALL + _RIGHT_WALL) / 2
                self.velocity = (abs(vx) if ball.x < middle else -abs(vx)), vy
                return
            if dy * vy <= 0:
                self.aim = float(self.rng.uniform(-0.7, 0.7))
        self.velocity, self.samples = (dx, dy), 1

    def state(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        kept = {name: getattr(self, name) for name in _KEPT}
        box = None if self.ball is None else [self.ball.x, self.ball.y, self.ball.w, self.ball.h]
        return kept | {"ball": box, "rng": self.rng.bit_generator.state}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> _Eye:
        """The memory whose state it is."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        eye = cls(rng)
        for name in _KEPT:
            setattr(eye, name, state[name])
        eye.velocity = None if eye.velocity is None else tuple(eye.velocity)  # type: ignore[assignment]
        eye.ball = None if state["ball"] is None else Box(*state["ball"])
        return eye

    def meeting(self) -> tuple[float, float] | None:
        """Where the ball's middle will be at the paddle's height, and in how many frames."""
        if self.ball is None or self.velocity is None:
            return None
        vx, vy = self.velocity
        if vy <= 0.2:
            return None
        frames = max((_MEETING - self.ball.y) / vy, 0.0)
        return folded(self.ball.x + vx * frames) + self.ball.w / 2, frames


def folded(x: float) -> float:
    """Where a ball flying straight to x really is after turning at the side walls."""
    width = _RIGHT_WALL - _LEFT_WALL
    along = (x - _LEFT_WALL) % (2 * width)
    return _LEFT_WALL + (along if along <= width else 2 * width - along)


class ScriptedAgent:
    """Plays Breakout from ground truth, as well as `skill` says and as far as it can see.

    skill: the share of actions that are meant; the others are random. 0 is random play.
    blind_to: "ball" and "paddle" are not seen at all. "distractor" means not telling a
    drawing from the ball: the lower one on the screen is taken for the ball.
    """

    def __init__(
        self, skill: float = 1.0, blind_to: Collection[str] = (), *, seed: int = 0
    ) -> None:
        if isinstance(skill, bool) or not isinstance(skill, int | float) or not 0 <= skill <= 1:
            raise UserError(f"skill={skill!r} must be a number from 0 to 1.")
        names = (blind_to,) if isinstance(blind_to, str) else tuple(blind_to)
        for name in names:
            if name not in BLINDNESS:
                raise unknown("blind_to", name, BLINDNESS)
        self.skill = float(skill)
        self.blind_to = frozenset(names)
        self.seed = seed
        self._eyes: dict[int, _Eye] = {}
        self._games: dict[int, int] = {}

    def predict(self, objects: Sequence[Objects], games: Sequence[int] | None = None) -> np.ndarray:
        """One action for each environment, int (n,), from the objects of this step.

        `games` names each environment's game by a number: its random stream depends on that number
        alone, and a new number begins a new game. Without it, games are counted as they begin.
        """
        actions = np.zeros(len(objects), dtype=np.int64)
        for i, seen in enumerate(objects):
            eye = self._eye(i, seen, None if games is None else int(games[i]))
            eye.watch(self._ball(seen))
            drawn = eye.rng.random(), int(eye.rng.integers(4))
            meant = int(self._costs(eye, seen).argmin())
            action = meant if drawn[0] < self.skill else drawn[1]
            eye.moving = _MOVES.get(action, 0)
            actions[i] = action
        return actions

    def costs(self, objects: Sequence[Objects], before: Sequence[int] | np.ndarray) -> np.ndarray:
        """What each action would cost, float (n, 4), in states to which anybody may have played.

        The cost of an action is that of the best plan that begins with it: pixels of aim and
        effort, 100 for each pixel by which the ball is missed, infinite where the player would
        never take it. The least one is what `predict` means. `before` (n,) are the actions that
        led here: half of a move's way is still to come. Call one of the two once a step.
        """
        costs = np.empty((len(objects), 4))
        for i, seen in enumerate(objects):
            eye = self._eye(i, seen, None)
            eye.moving = _MOVES.get(int(before[i]), 0)
            eye.watch(self._ball(seen))
            costs[i] = self._costs(eye, seen)
        return costs

    def state(self) -> dict[str, Any]:
        """What the player remembers of every game, as JSON can hold it."""
        return {
            str(i): eye.state() | {"game": self._games[i]} for i, eye in sorted(self._eyes.items())
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the player whose state it is."""
        self._eyes = {int(i): _Eye.of(memory) for i, memory in state.items()}
        self._games = {int(i): memory["game"] for i, memory in state.items()}

    def _eye(self, i: int, seen: Objects, game: int | None) -> _Eye:
        """The memory of environment i, fresh where a new game has begun."""
        eye = self._eyes.get(i)
        name: tuple[str | int, int]
        if game is not None:
            new, name = self._games.get(i) != game, ("game", game)
        else:
            new = eye is None or seen.score < eye.score or seen.lives > eye.lives
            game = self._games.get(i, -1) + new
            name = (i, game)
        if eye is None or new:
            eye = self._eyes[i] = _Eye(numpy_stream(self.seed, "scripted", *name))
            self._games[i] = game
        eye.score, eye.lives = seen.score, seen.lives
        return eye

    def _ball(self, seen: Objects) -> Box | None:
        ball = None if "ball" in self.blind_to else seen.ball
        if "distractor" in self.blind_to:
            rows = np.flatnonzero(seen.distractor.any(axis=1))
            if rows.size and (ball is None or rows[-1] >= ball.y + ball.h):
                columns = np.flatnonzero(seen.distractor[rows[-1]])
                return Box(int(columns[columns.size // 2]) - 1, int(rows[-1]) - 3, 2, 4)
        return ball

    def _costs(self, eye: _Eye, seen: Objects) -> np.ndarray:
        """What each action costs a player who wants to hit the ball: (4,)."""
        costs = np.full(4, np.inf)
        if eye.ball is None:
            costs[FIRE] = 0.0
            return costs
        width = 16.0 if seen.paddle is None else seen.paddle.w
        paddle = 80.0 if seen.paddle is None or "paddle" in self.blind_to else seen.paddle.center[0]
        meeting = eye.meeting()
        target, frames = meeting or (eye.ball.center[0], 4.0 * _AHEAD)
        # Only the next three actions are weighed; until then being near is enough.
        frames = min(frames, 4.0 * _AHEAD - 2)
        # Where on the paddle the ball will fall, at the first touch and two frames later.
        off = np.stack([target - self._paddle_at(paddle, eye.moving, frames + k) for k in (0, 2)])
        reach = width / 2 - 1
        missed = np.maximum(np.abs(off) - reach, 0).max(axis=0)
        aimed = np.abs(off - eye.aim * reach).mean(axis=0)
        # Hitting matters most, then the place on the paddle, then few moves, and early ones.
        cost = 100 * missed + aimed + np.abs(_PLANS) @ _EFFORT
        costs[[NOOP, RIGHT, LEFT]] = cost.reshape(3, -1).min(axis=1)  # plans by their first move
        return costs

    @staticmethod
    def _paddle_at(paddle: float, moving: int, frames: float) -> np.ndarray:
        """The paddle's middle after so many frames, for each plan: (27,)."""
        # Action k holds its key in frames 4k ... 4k + 3; the paddle follows two frames later.
        now = math.ceil(frames)
        before = min(now, 2) * moving
        held = [min(max(now - _SKIP * k - 2, 0), _SKIP) for k in range(_AHEAD)]
        return paddle + _SPEED * (before + _PLANS @ held)
