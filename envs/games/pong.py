"""Pong: its objects read from the console's RAM, and a competent player without training.

The game scores points for the player less points against it, so its score can fall. The scripted
agent plans where its paddle and the ball meet and returns the ball off the paddle's ends, which
the console's own player cannot always reach.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from reprl.envs.games.base import Game, Memory, Scripted
from reprl.envs.machine import SKIP
from reprl.envs.objects import RAW, Box, Objects

FIELD = (0, 34, 160, 194)  # left, top, right, bottom edges between which everything is painted
PADDLE_X, OPPONENT_X = 140, 16
HEIGHT = 16  # of a paddle that is not half behind a wall
BALL_X, BALL_Y, PADDLE_Y, OPPONENT_Y = 49, 54, 51, 50  # bytes of RAM
_SURE = 137  # the first one from which a ball on an odd scanline always is


def pong_objects(ram: np.ndarray) -> Objects:
    """Read Pong's RAM, uint8 (128,), as it is after the frame on the screen.

    Boxes are what is visible of each object between the two walls. The ball's is where the game has
    it; from column 125 on the console may paint it one scanline higher.
    """
    ball = None
    if ram[BALL_Y]:
        ball = _visible(int(ram[BALL_X]) - 49, int(ram[BALL_Y]) - 14, 2, 4)
    return Objects(
        boxes={
            "ball": ball,
            # Painted two scanlines at a time: the paddle on even ones, the opponent on odd ones.
            "paddle": _visible(PADDLE_X, (int(ram[PADDLE_Y]) + 1) // 2 * 2 - 14, 4, HEIGHT),
            "opponent": _visible(OPPONENT_X, int(ram[OPPONENT_Y]) // 2 * 2 - 15, 4, HEIGHT),
        },
        score=int(ram[14]) - int(ram[13]),
        distractor=np.zeros(RAW, dtype=bool),
        painted={} if ball is None else {"ball": _painted(ball)},
    )


def _visible(x: int, y: int, w: int, h: int) -> Box | None:
    top, bottom = max(y, FIELD[1]), min(y + h, FIELD[3])
    return Box(x, top, w, bottom - top) if bottom > top else None


def _painted(ball: Box) -> Box:
    """The pixels the console lights for the ball, where that is sure."""
    raised = ball.x >= _SURE and int(ball.y) % 2 == 1 and ball.h == 4
    return Box(ball.x, ball.y - raised, ball.w, ball.h)


# -- the scripted agent ------------------------------------------------------------------------

NOOP, FIRE, UP, DOWN, UP_FIRE, DOWN_FIRE = range(6)  # ALE calls them RIGHT and LEFT

_TURNS = (31.0, 192.0)  # where the ball's upper edge turns at the walls
_MEETING = 138  # the ball's left edge when it reaches the paddle
_SPEED = 5.4  # pixels a frame that a held key moves the place that the paddle goes to
_SUDDEN = 8  # pixels that the first action after a rest moves the paddle, or fewer
_AHEAD = 3  # actions planned exactly before the ball arrives
_MOVES = {UP: -1, UP_FIRE: -1, DOWN: 1, DOWN_FIRE: 1}
_REST = 114.0  # the field's middle, where the paddle waits
_REACH = 9.0  # from the paddle's middle to a ball that it just hits
_AIM = 0.8  # how far out on the paddle it wants the ball: steep returns win points
_EFFORT = np.array([1.0, 1.01, 1.02])  # pixels of aim that a move in each action is worth
_PLANS = np.array(list(itertools.product((0, -1, 1), repeat=_AHEAD)))  # (27, 3)


class _Rally(Memory):
    """What the player remembers of one game."""

    kept: ClassVar[tuple[str, ...]] = (
        *(*Memory.kept, "velocity", "aim", "moving", "top", "before", "early"),
    )

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.ball: tuple[float, float] | None = None  # its left and upper edge
        self.velocity: tuple[float, float] | None = None  # pixels a frame
        self.aim = _AIM  # where on the paddle the ball shall fall, from its middle, -1 to 1
        self.moving = 0  # the previous action's direction, downwards
        self.top = self.before = _REST - HEIGHT / 2  # the paddle's upper edge now and a step ago
        # The paddle moves in every other frame: this long after a key has begun to be held. Which
        # frames these are is a matter of when the game began, and shows as it sets off.
        self.early = 0.5

    def state(self) -> dict[str, Any]:
        return super().state() | {"ball": None if self.ball is None else list(self.ball)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.velocity = None if self.velocity is None else (self.velocity[0], self.velocity[1])
        self.ball = None if state["ball"] is None else (state["ball"][0], state["ball"][1])

    def watch(self, ball: Box | None, paddle: Box | None) -> None:
        """Take in where ball and paddle are one step later."""
        rested, self.before = self.top == self.before, self.top
        if paddle is not None:
            # Half behind the upper wall its lower edge tells where it is.
            self.top = paddle.y if paddle.y > FIELD[1] else paddle.y + paddle.h - HEIGHT
            if rested and self.moving and self.top != self.before:
                self.early = float(abs(self.top - self.before) >= _SUDDEN)
        before, self.ball = self.ball, None if ball is None else (ball.x, ball.y + ball.h - 4)
        if self.ball is None or before is None:
            self.velocity = None
            return
        dx, dy = (self.ball[0] - before[0]) / SKIP, (self.ball[1] - before[1]) / SKIP
        if self.velocity is not None and dx * self.velocity[0] > 0:
            near = min(self.ball[1] - FIELD[1], FIELD[3] - self.ball[1])
            if abs(dy - self.velocity[1]) > 0.3 and near < SKIP * 5:
                # It turned at a wall within this step: the speed stays, the side changes.
                down = self.ball[1] < _REST
                dy = abs(self.velocity[1]) if down else -abs(self.velocity[1])
        elif self.velocity is not None:
            self.aim = _AIM * (1 if self.rng.random() < 0.5 else -1)
        self.velocity = dx, dy

    def meeting(self) -> tuple[float, float] | None:
        """Where the ball's middle will be at the paddle, and in how many frames."""
        if self.ball is None or self.velocity is None or self.velocity[0] <= 0.2:
            return None
        if self.ball[0] > PADDLE_X + 4:
            return None  # lost
        frames = max((_MEETING - self.ball[0]) / self.velocity[0], 0.0)
        return turned(self.ball[1] + self.velocity[1] * frames) + 2, frames

    def pull(self) -> float:
        """The place that the paddle is moving to, as its upper edge.

        A held key moves that place, and every two frames the paddle goes half of the way to it:
        that is solved for where the place must be now.
        """
        found = (4 * self.top - self.before + (8 - 3 * self.early) * _SPEED * self.moving) / 3
        return float(np.clip(found, *_PULL))


_PULL = (FIELD[1] - HEIGHT, FIELD[3])


def turned(y: float) -> float:
    """Where a ball flying straight to y really is after turning at the walls."""
    top, bottom = _TURNS
    along = (y - top) % (2 * (bottom - top))
    return top + min(along, 2 * (bottom - top) - along)


class PongAgent(Scripted):
    """Plays Pong from ground truth, as well as `skill` says and as far as it can see.

    skill: the share of actions that are meant; the others are random. 0 is random play.
    blind_to: "ball" and "paddle" are not seen at all. "distractor" means not telling a drawing
    from the ball: the one further right on the screen is taken for the ball.
    """

    blindness: ClassVar[tuple[str, ...]] = ("ball", "distractor", "paddle")
    n_actions: ClassVar[int] = 6
    memory: ClassVar[type[Memory]] = _Rally

    def look(self, memory: _Rally, seen: Objects) -> None:
        """Follow the ball and the own paddle."""
        memory.watch(self._ball(seen), None if "paddle" in self.blind_to else seen.paddle)

    def moved(self, memory: _Rally, action: int) -> None:
        """The paddle is still on its way."""
        memory.moving = _MOVES.get(action, 0)

    def _ball(self, seen: Objects) -> Box | None:
        ball = None if "ball" in self.blind_to else seen.ball
        if "distractor" in self.blind_to:
            columns = np.flatnonzero(seen.distractor[:, :PADDLE_X].any(axis=0))
            if columns.size and (ball is None or columns[-1] >= ball.x + ball.w):
                rows = np.flatnonzero(seen.distractor[:, columns[-1]])
                return Box(int(columns[-1]) - 1, int(rows[rows.size // 2]) - 2, 2, 4)
        return ball

    def action_costs(self, memory: _Rally, seen: Objects) -> np.ndarray:
        """What each action costs a player who wants to return the ball: (6,).

        The cost of the best plan that begins with it: pixels of aim and effort, 100 for each pixel
        by which the ball is missed.
        """
        costs = np.full(self.n_actions, np.inf)
        meeting = memory.meeting()
        target, frames = meeting or (_REST, np.inf)
        # Where the paddle's middle will be as the ball reaches it and two frames later: (2, 27).
        middle = np.stack([self._top_at(memory, frames + k) for k in (0, 2)]) + HEIGHT / 2
        aim = _AIM if self.steady else memory.aim
        wanted = target - (0.0 if meeting is None else aim * _REACH)
        missed = np.maximum(np.abs(target - middle) - _REACH, 0).max(axis=0)
        aimed = np.abs(middle - wanted).mean(axis=0)
        # Hitting matters most, then the place on the paddle, then few moves, and early ones.
        cost = 100 * missed + aimed + np.abs(_PLANS) @ _EFFORT
        costs[[NOOP, UP, DOWN]] = cost.reshape(3, -1).min(axis=1)  # plans by their first move
        return costs

    @staticmethod
    def _top_at(memory: _Rally, frames: float) -> np.ndarray:
        """The paddle's upper edge after so many frames, for each plan: (27,).

        Where the ball comes later than the plans go, it is where the paddle will come to rest.
        """
        pull = np.full(len(_PLANS), memory.pull())
        if frames > SKIP * _AHEAD:
            return np.clip(pull + SKIP * _SPEED * _PLANS.sum(axis=1), *_PULL)
        top = np.full(len(_PLANS), memory.top)
        for half in range(round(frames / 2)):
            speed = _SPEED * _PLANS[:, min(2 * half // SKIP, _AHEAD - 1)]
            top = (top + np.clip(pull + memory.early * speed, *_PULL)) / 2
            pull = np.clip(pull + 2 * speed, *_PULL)
        return top


GAME = Game(
    cartridge="pong",
    objects=pong_objects,
    classes=("ball", "paddle", "opponent"),
    tracked="ball",
    scripted=PongAgent,
    score_scale=1.0,
    symmetric=False,  # RIGHT is up, and the opponent is on the left
)
