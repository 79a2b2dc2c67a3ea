"""A second game with ground truth, as a user's own module adds one: Freeway's chicken and cars.

Nothing in the package knows it. It has what Breakout has not: no lives, no FIRE, no LEFT and RIGHT,
many objects of one class, and another object to track.
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


class _Lookout(Memory):
    """Where the cars were one step ago."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.cars: np.ndarray | None = None  # (210, 160) bool
        self.before: np.ndarray | None = None


class Crosser(Scripted):
    """Goes up unless a car is about to be where it would go; blind to cars it always goes up."""

    blindness: ClassVar[tuple[str, ...]] = ("cars",)
    n_actions: ClassVar[int] = 3
    memory: ClassVar[type[Memory]] = _Lookout

    def look(self, memory: _Lookout, seen: Objects) -> None:
        memory.before, memory.cars = memory.cars, seen.cars

    def meant(self, memory: _Lookout, seen: Objects) -> int:
        if "cars" in self.blind_to or memory.before is None or memory.cars is None:
            return UP
        chicken = seen.chicken
        ahead = Box(chicken.x, chicken.y - 6, chicken.w, 8)
        if self._comes(memory, ahead):
            return DOWN if self._comes(memory, chicken) else NOOP
        return UP

    @staticmethod
    def _comes(memory: _Lookout, place: Box) -> bool:
        """Whether a car is there, or comes closer and is within 12 pixels."""
        assert memory.cars is not None
        assert memory.before is not None
        near = Box(place.x - 12, place.y, place.w + 24, place.h).slices(memory.cars.shape)
        middle = place.center[0] - (place.x - 12)
        now, before = (np.flatnonzero(m[near].any(axis=0)) for m in (memory.cars, memory.before))
        if memory.cars[place.slices(memory.cars.shape)].any():
            return True
        if not now.size or not before.size:
            return bool(now.size)
        return bool(abs(now.mean() - middle) < abs(before.mean() - middle))


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
