"""A second game with ground truth, as a user's own module adds one: Freeway's chicken and cars.

A reading and a player of its own, beside those of the package, as a user writes for any cartridge.
It has what Breakout has not: no lives, no FIRE, no LEFT and RIGHT, many objects of one class, and
another object to track.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from reprl.envs import Box, Game, Grid, Memory, Objects, Scripted

NOOP, UP, DOWN = range(3)
LANES, TOP, HEIGHT = 10, 27, 16  # the first lane's cars begin at row 27, a lane has 16 rows
EDGE = 160  # cars leave at the right and come back at the left


def freeway_objects(ram: np.ndarray) -> Objects:
    """Read Freeway's RAM: the left chicken's height, ten cars' places, the score in BCD."""
    cars = []
    for lane in range(LANES):
        x = int(ram[117 - lane]) - 3  # the cars of the upper lanes may be a pixel further right
        width = 9 if lane < LANES // 2 else 8
        cars += [Box(x + shift, TOP + HEIGHT * lane, width, 10) for shift in (0, EDGE)]
    score = int(ram[103])
    return Objects(
        boxes={"chicken": Box(44, 193 - int(ram[14]), 7, 8)},
        grids={"cars": Grid.of(cars)},
        score=10 * (score >> 4) + (score & 15),
    )


class Crosser(Scripted):
    """Goes up, and waits where a car stands before it; blind to cars it always goes up."""

    blindness: ClassVar[tuple[str, ...]] = ("cars",)
    n_actions: ClassVar[int] = 3

    def meant(self, memory: Memory, seen: Objects) -> int:
        if "cars" in self.blind_to:
            return UP
        x, y, w, h = seen.chicken.x - 2, seen.chicken.y, seen.chicken.w + 4, seen.chicken.h
        here, ahead = (
            seen.cars[Box(x, top, w, h).slices(seen.cars.shape)].any() for top in (y, y - 8)
        )
        return NOOP if ahead and not here else UP


FREEWAY = Game(
    cartridge="freeway",
    objects=freeway_objects,
    classes=("chicken", "cars"),
    tracked="chicken",
    scripted=Crosser,
    score_scale=0.5,
)
BARE = Game(cartridge="freeway")  # the same cartridge without truth
WRONG = Game(cartridge="freeway", objects=freeway_objects, classes=("cars", "chicken"))
