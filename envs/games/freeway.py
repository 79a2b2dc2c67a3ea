"""Freeway: its objects read from the console's RAM, and a competent player without training.

The left chicken crosses ten lanes, a point each time; a car that it touches throws it back. The
other chicken, which nobody plays, stands still and is part of the background. The scripted agent
waits, goes on or steps back, whichever brings it furthest over the next seconds of traffic.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from reprl.envs.games.base import Game, Memory, Scripted
from reprl.envs.machine import SKIP
from reprl.envs.objects import Box, Grid, Objects

LANES, TOP, PITCH = 10, 27, 16  # the first lane's cars begin at row 27, a lane has 16 rows
CAR = (8, 10)  # width, height
PERIODS = (5, 4, 3, 2, 1, 1, 2, 3, 4, 5)  # frames in which a lane's car moves a pixel
LEFTWARDS = 5  # the upper lanes go left, the others right
MARGIN, WIDTH = 8, 160  # columns before the margin are black; cars leave and come back
CHICKEN_X, CHICKEN = 44, (7, 8)
CHICKEN_Y, SCORE, CARS, TIMERS = 14, 103, 117, 33  # bytes of RAM; lane 0's of the last two


def freeway_objects(ram: np.ndarray) -> Objects:
    """Read Freeway's RAM, uint8 (128,), as it is after the frame on the screen.

    The chicken's box is that of its wider picture: its legs move, and the other is 6 wide. Cars are
    what is visible of them right of the margin.
    """
    cars = []
    for lane in range(LANES):
        # A car that goes left is painted before it moves: in that frame RAM is a pixel ahead.
        late = lane < LEFTWARDS and ram[TIMERS + lane] == 0
        x = int(ram[CARS - lane]) - 3 + late
        for left in (x, x + WIDTH, x - WIDTH):
            first, end = max(left, MARGIN), min(left + CAR[0], WIDTH)
            if end > first:
                cars.append(Box(first, TOP + PITCH * lane, end - first, CAR[1]))
    score = int(ram[SCORE])
    return Objects(
        boxes={"chicken": Box(CHICKEN_X, 193 - int(ram[CHICKEN_Y]), *CHICKEN)},
        grids={"cars": Grid.of(cars)},
        score=10 * (score >> 4) + (score & 15),
    )


# -- the scripted agent ------------------------------------------------------------------------

NOOP, UP, DOWN = range(3)

_AHEAD = 18  # actions that are planned
_THROWN = 60.0  # pixels of way that a car costs
_LOWEST = 187  # the chicken's row at the start
# Wait so long and go, or step back so far and go: (13, 18) of pixels upwards a frame.
_PLANS = np.array(
    [[0] * wait + [1] * (_AHEAD - wait) for wait in range(9)]
    + [[-1] * back + [1] * (_AHEAD - back) for back in range(1, 5)]
)
_FIRST = np.where(_PLANS[:, 0] == 0, NOOP, np.where(_PLANS[:, 0] == 1, UP, DOWN))
_FRAMES = np.arange(1, _AHEAD * SKIP + 1)
_SPEEDS = np.array([-1 / p if k < LEFTWARDS else 1 / p for k, p in enumerate(PERIODS)])
_NEAR = 1  # pixels kept from a car


class FreewayAgent(Scripted):
    """Plays Freeway from ground truth, as well as `skill` says and as far as it can see.

    skill: the share of actions that are meant; the others are random. 0 is random play.
    blind_to: "cars" are not seen at all: it always goes up.
    """

    blindness: ClassVar[tuple[str, ...]] = ("cars",)
    n_actions: ClassVar[int] = 3

    def action_costs(self, memory: Memory, seen: Objects) -> np.ndarray:
        """What each action costs a player who wants to cross: (3,), in pixels of way.

        That of the best plan which begins with it, over the next 18 actions.
        """
        chicken = seen.chicken
        assert chicken is not None
        # The chicken's upper row after each frame of each plan: (13, 72).
        rows = np.minimum(chicken.y - np.cumsum(np.repeat(_PLANS, SKIP, axis=1), axis=1), _LOWEST)
        way = rows[:, -1] - chicken.y
        cost = way.astype(float)
        if "cars" not in self.blind_to:
            cost += _THROWN * self._meets(seen, rows).any(axis=1)
        cost += np.abs(_PLANS).sum(axis=1) * -1e-3  # of equal plans the one that moves
        costs = np.full(self.n_actions, np.inf)
        np.minimum.at(costs, _FIRST, cost)
        return costs

    @staticmethod
    def _meets(seen: Objects, rows: np.ndarray) -> np.ndarray:
        """Whether a car is where the chicken is, for each plan and frame: (13, 72)."""
        hit = np.zeros(rows.shape, bool)
        cars = seen.grids["cars"].mask()
        for lane in range(LANES):
            top = TOP + PITCH * lane
            columns = np.flatnonzero(cars[top])
            if not columns.size:
                continue  # behind the margin
            left = columns[0] if columns[0] > MARGIN else columns[-1] + 1 - CAR[0]
            x = left + _SPEEDS[lane] * _FRAMES  # (72,)
            across = (x < CHICKEN_X + CHICKEN[0] + _NEAR) & (x + CAR[0] > CHICKEN_X - _NEAR)
            hit |= across & (rows < top + CAR[1]) & (rows + CHICKEN[1] > top)
        return hit


GAME = Game(
    cartridge="freeway",
    objects=freeway_objects,
    classes=("chicken", "cars"),
    tracked="chicken",
    scripted=FreewayAgent,
    score_scale=1.0,
    symmetric=False,  # cars would drive the other way
)
