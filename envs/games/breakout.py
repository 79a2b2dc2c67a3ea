"""Breakout: its objects read from the console's RAM, and a competent player without training.

The scripted agent reads objects() and plans where paddle and ball meet. Evaluation, reports and
attention tools can be tried on it long before anything is trained, and its blindness produces the
gap between variants that they must then find.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from reprl.envs.games.base import Game, Intervention, Memory, Scripted
from reprl.envs.machine import SKIP
from reprl.envs.objects import RAW, Box, Grid, Objects

BRICK_WIDTH, BRICK_HEIGHT = 8, 6
FIELD = (8, 32, 152, 196)  # left, top, right, bottom edges between which the ball flies

# Brick (r, c) is bit b of ram[6j + 5 - r]; (j, b) for the columns from left to right.
_BITS = (
    *((5, 6), (4, 6), (4, 4), (4, 2), (4, 0), (3, 0), (3, 2), (3, 4), (3, 6)),
    *((2, 4), (2, 6), (1, 6), (1, 4), (1, 2), (1, 0), (0, 0), (0, 2), (0, 4)),
)
_BRICK_BYTE = np.array([[6 * j + 5 - r for j, _ in _BITS] for r in range(6)])  # (6, 18)
_BRICK_BIT = np.array([1 << b for _, b in _BITS], dtype=np.uint8)  # (18,)
_LOWEST_RAISED = 93  # the last screen row whose ball is painted one scanline higher


def breakout_objects(ram: np.ndarray, distractor: np.ndarray | None = None) -> Objects:
    """Read Breakout's RAM, uint8 (128,), as it is after the frame on the screen.

    The ball's box is where the game has it; above row 93 the console paints it one scanline
    higher, gray or in the colour of the brick row.
    """
    ball_y = int(ram[101]) + 9
    seen = ram[101] != 0 and ball_y <= 196
    ball = Box(int(ram[99]) - 49, ball_y, 2, 4) if seen else None
    bricks = (ram[_BRICK_BYTE] & _BRICK_BIT) != 0  # (6, 18), row 0 on top
    return Objects(
        boxes={
            "ball": ball,
            "paddle": Box(int(ram[72]) - 47, 189, 2 * int(ram[108]), 4) if ram[108] else None,
        },
        grids={"bricks": Grid(bricks, x=8, y=57, w=BRICK_WIDTH, h=BRICK_HEIGHT)},
        score=100 * _bcd(int(ram[76])) + _bcd(int(ram[77])),
        lives=int(ram[57]),
        distractor=np.zeros(RAW, dtype=bool) if distractor is None else distractor,
        painted={} if ball is None else {"ball": _painted(ball)},
    )


def _painted(ball: Box) -> Box:
    """The pixels the console lights for the ball."""
    top = ball.y - (ball.y <= _LOWEST_RAISED)
    bottom = ball.y + ball.h - (ball.y + ball.h <= _LOWEST_RAISED)
    return Box(ball.x, top, ball.w, bottom - top)


def _bcd(byte: int) -> int:
    return 10 * (byte >> 4) + (byte & 15)


# -- the scripted agent ------------------------------------------------------------------------

NOOP, FIRE, RIGHT, LEFT = range(4)

_LEFT_WALL, _RIGHT_WALL = 8, 150  # where the ball's left edge turns
_MEETING = 186  # the ball's upper edge when it first overlaps the paddle
_FASTEST = 9  # pixels a frame that a ball can fly
_SPEED = 5.5  # pixels a frame that a held key moves the paddle, two frames after it is pressed
_AHEAD = 3  # actions planned exactly before the ball arrives
_MOVES = {NOOP: 0, RIGHT: 1, LEFT: -1}
_GOOD = 0.4  # share of half a paddle around its middle that a steady player is content with
_EFFORT = np.array([0.1, 0.11, 0.12])  # pixels of aim that a move in each action is worth
_PLANS = np.array(list(itertools.product((0, 1, -1), repeat=_AHEAD)))  # (27, 3)


class _Eye(Memory):
    """What the player remembers of one game."""

    kept: ClassVar[tuple[str, ...]] = (*Memory.kept, "velocity", "samples", "aim", "moving")

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.ball: Box | None = None
        self.velocity: tuple[float, float] | None = None  # pixels a frame
        self.samples = 0  # steps of straight flight behind the velocity
        self.aim = 0.0  # where on the paddle the ball shall fall, from its middle
        self.moving = 0  # the previous action's direction: half of its way is still to come

    def state(self) -> dict[str, Any]:
        box = None if self.ball is None else [self.ball.x, self.ball.y, self.ball.w, self.ball.h]
        return super().state() | {"ball": box}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.velocity = None if self.velocity is None else (self.velocity[0], self.velocity[1])
        self.ball = None if state["ball"] is None else Box(*state["ball"])

    def watch(self, ball: Box | None) -> None:
        """Take in where the ball is one step later."""
        before, self.ball = self.ball, ball
        if ball is None or before is None:
            self.velocity, self.samples = None, 0
            return
        dx, dy = (ball.x - before.x) / SKIP, (ball.y - before.y) / SKIP
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

    def meeting(self) -> tuple[float, float] | None:
        """Where the ball's middle will be at the paddle's height, and in how many frames."""
        if self.ball is None or self.velocity is None:
            return None
        _, vy = self.velocity
        if vy <= 0.2:
            return None
        frames = max((_MEETING - self.ball.y) / vy, 0.0)
        return self.ahead(frames), frames

    def ahead(self, frames: float) -> float:
        """Where the middle of the ball, which is in play, will be across the field by then."""
        assert self.ball is not None
        vx = 0.0 if self.velocity is None else self.velocity[0]
        return folded(self.ball.x + vx * frames) + self.ball.w / 2


def folded(x: float) -> float:
    """Where a ball flying straight to x really is after turning at the side walls."""
    width = _RIGHT_WALL - _LEFT_WALL
    along = (x - _LEFT_WALL) % (2 * width)
    return _LEFT_WALL + (along if along <= width else 2 * width - along)


class ScriptedAgent(Scripted):
    """Plays Breakout from ground truth, as well as `skill` says and as far as it can see.

    skill: the share of actions that are meant; the others are random. 0 is random play.
    blind_to: "ball" and "paddle" are not seen at all. "distractor" means not telling a
    drawing from the ball: the lower one on the screen is taken for the ball.
    steady: stays below the ball, instead of going at once to where it will fall and to a place of
    the paddle drawn at each bounce; both are more than four pictures show.
    """

    blindness: ClassVar[tuple[str, ...]] = ("ball", "distractor", "paddle")
    n_actions: ClassVar[int] = 4
    memory: ClassVar[type[Memory]] = _Eye

    def look(self, memory: _Eye, seen: Objects) -> None:
        """Follow the ball."""
        memory.watch(self._ball(seen))

    def moved(self, memory: _Eye, action: int) -> None:
        """Half of the action's way is still to come."""
        memory.moving = _MOVES.get(action, 0)

    def _ball(self, seen: Objects) -> Box | None:
        ball = None if "ball" in self.blind_to else seen.ball
        if "distractor" in self.blind_to:
            rows = np.flatnonzero(seen.distractor.any(axis=1))
            if rows.size and (ball is None or rows[-1] >= ball.y + ball.h):
                columns = np.flatnonzero(seen.distractor[rows[-1]])
                return Box(int(columns[columns.size // 2]) - 1, int(rows[-1]) - 3, 2, 4)
        return ball

    def action_costs(self, memory: _Eye, seen: Objects) -> np.ndarray:
        """What each action costs a player who wants to hit the ball: (4,).

        The cost of the best plan that begins with it: pixels of aim and effort, 100 for each pixel
        by which the ball is missed.
        """
        costs = np.full(4, np.inf)
        if memory.ball is None:
            costs[FIRE] = 0.0
            return costs
        width = 16.0 if seen.paddle is None else seen.paddle.w
        paddle = 80.0 if seen.paddle is None or "paddle" in self.blind_to else seen.paddle.center[0]
        # Only the next three actions are weighed; until then being near is enough.
        horizon = float(SKIP) * _AHEAD - 2
        meeting = memory.meeting()
        target, frames = meeting or (memory.ball.center[0], horizon)
        frames = min(frames, horizon)
        if self.steady:
            target = memory.ahead(frames)
        # Where on the paddle the ball will fall, at the first touch and two frames later.
        off = np.stack(
            [target - self._paddle_at(paddle, memory.moving, frames + k) for k in (0, 2)]
        )
        reach = width / 2 - 1
        missed = np.maximum(np.abs(off) - reach, 0).max(axis=0)
        if self.steady:
            aimed = np.maximum(np.abs(off) - _GOOD * reach, 0).mean(axis=0)
        else:
            aimed = np.abs(off - memory.aim * reach).mean(axis=0)
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
        held = [min(max(now - SKIP * k - 2, 0), SKIP) for k in range(_AHEAD)]
        return paddle + _SPEED * (before + _PLANS @ held)


# -- interventions -----------------------------------------------------------------------------

_BALL_X, _PADDLE_X = 99, 72
_FURTHER = 16  # raw pixels by which ball and paddle are moved: a paddle's width


class MoveBall:
    """Set the ball aside once; it flies on as it did."""

    def __init__(self, *, pixels: int) -> None:
        self.pixels, self.done = pixels, False

    def before_frame(self, machine: Any) -> None:
        if not self.done:
            self.done = True
            machine.write(_BALL_X, min(max(int(machine.ram[_BALL_X]) + self.pixels, 57), 199))


class MovePaddle:
    """Hold the paddle aside of where the player has it.

    In each frame the game moves the paddle half of the way to where the knob stands, so half of
    what is written is gone at once.
    """

    def __init__(self, *, pixels: int) -> None:
        self.pixels, self.held = pixels, False

    def before_frame(self, machine: Any) -> None:
        amount = self.pixels if self.held else 2 * self.pixels
        self.held = True
        machine.write(_PADDLE_X, min(max(int(machine.ram[_PADDLE_X]) + amount, 0), 255))


class DeleteRow:
    """Take a row of bricks away; row 0 is the top one."""

    def __init__(self, *, row: int) -> None:
        self.row, self.done = row, False

    def before_frame(self, machine: Any) -> None:
        if self.done:
            return
        self.done = True
        left = machine.ram.copy()
        for byte, bit in zip(_BRICK_BYTE[self.row], _BRICK_BIT, strict=True):
            left[byte] &= 255 - int(bit)
        for byte in dict.fromkeys(_BRICK_BYTE[self.row].tolist()):
            machine.write(byte, int(left[byte]))


_SIDES = (("left", -_FURTHER), ("right", _FURTHER))
INTERVENTIONS = (
    *(Intervention("ball", side, partial(MoveBall, pixels=n)) for side, n in _SIDES),
    *(Intervention("paddle", side, partial(MovePaddle, pixels=n)) for side, n in _SIDES),
    *(
        Intervention(
            "bricks", f"row {r + 1}", partial(DeleteRow, row=r), (slice(r, r + 1), slice(None))
        )
        for r in range(6)
    ),
)

GAME = Game(
    cartridge="breakout",
    objects=breakout_objects,
    classes=("ball", "paddle", "bricks"),
    tracked="ball",
    scripted=ScriptedAgent,
    score_scale=1.0,
    interventions=INTERVENTIONS,
)
