"""Freeway: ground truth against the screen itself, and its scripted player."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reprl.envs import game
from reprl.envs.games.freeway import FreewayAgent, freeway_objects
from tests.envs.console import Console

KEYS = (0, 2, 5)  # ALE's NOOP, UP, DOWN
CHICKENS = (slice(43, 52), slice(107, 118))  # columns of the own chicken and of the other


def wander(console: Console, count: int, rng: np.random.Generator) -> Iterator[float]:
    """Play so many frames, mostly upwards; yields the points of each."""
    key = 0
    for i in range(count):
        if i % 20 == 0:
            key = int(rng.choice([0, 2, 2, 2, 5]))
        yield console.act(key)


def test_objects_are_where_the_screen_shows_them() -> None:
    """What differs from the empty road is a car or the chicken, to the pixel."""
    console, total = Console("freeway"), 0.0
    screens, truth = [], []
    for points in wander(console, 3000, np.random.default_rng(0)):
        total += points
        screens.append(console.ale.getScreen().copy())
        truth.append(freeway_objects(console.ram))
        assert truth[-1].score == total
    assert total > 1
    pictures = np.array(screens)
    some = pictures[::37]
    road = np.array([[np.bincount(some[:, y, x]).argmax() for x in range(160)] for y in range(210)])
    free = np.ones(160, bool)
    for columns in CHICKENS:
        free[columns] = False
    cars = cut = birds = 0
    for i, (screen, seen) in enumerate(zip(pictures, truth, strict=True)):
        lit, masks = screen != road, seen.masks()
        for lane in range(10):
            band = slice(27 + 16 * lane, 37 + 16 * lane)
            there = masks["cars"][band]
            if not (there & ~free).any():
                shown = lit[band] & free
                assert (shown.any(axis=0) == there.any(axis=0)).all(), (i, lane)
                width = int(there.any(axis=0).sum())
                cars, cut = cars + (width == 8), cut + (0 < width < 8)
                if width == 8:
                    assert shown.any(axis=1).all(), (i, lane)
        box = seen.chicken
        near = masks["cars"][box.y - 2 : box.y + box.h + 2, 30:66]
        if (
            not near.any() and np.ptp(road[box.slices((210, 160))]) == 0
        ):  # the middle line is yellow
            bird = lit[24:200, CHICKENS[0]] & ~masks["cars"][24:200, CHICKENS[0]]
            rows, columns = (np.flatnonzero(bird.any(axis=k)) for k in (1, 0))
            assert (rows[0] + 24, rows[-1] + 25) == (box.y, box.y + box.h), i
            assert columns[0] + 43 == box.x, i
            assert columns[-1] + 44 in (box.x + box.w - 1, box.x + box.w), i
            birds += 1
    assert cars > 20_000
    assert cut > 800
    assert birds > 1000


def test_the_player_crosses_more_often_than_one_who_does_not_look() -> None:
    def points(**how: object) -> float:
        console, agent = Console("freeway"), FreewayAgent(**how)
        total = 0.0
        for _ in range(700):
            action = int(agent.predict([freeway_objects(console.ram)])[0])
            total += sum(console.act(KEYS[action]) for _ in range(4))
        return total

    looking, blind = points(), points(blind_to=["cars"])
    assert looking >= 9
    assert looking > blind >= 4


def test_it_waits_for_a_car_that_crosses_its_way() -> None:
    from reprl.envs.objects import Box, Grid, Objects

    def costs(car: Box) -> np.ndarray:
        seen = Objects({"chicken": Box(44, 121, 7, 8)}, {"cars": Grid.of([car])})
        return FreewayAgent().costs([seen], np.zeros(1, int))[0]

    free, blocked = costs(Box(60, 107, 8, 10)), costs(Box(30, 107, 8, 10))
    assert free.argmin() == 1
    assert blocked.argmin() == 0
    assert blocked[1] > blocked[0] + 20


def test_the_game_says_what_it_is() -> None:
    assert game("ALE/Freeway-v5").tracked == "chicken"
    assert not game("freeway").symmetric
