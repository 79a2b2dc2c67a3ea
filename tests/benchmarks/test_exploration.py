"""Where an agent has been: cells by hand, and the console's memory against the console's screen."""

import numpy as np

from benchmarks.exploration import PLACES, SIDE, Visits
from reprl.envs.machine import emulator


def test_cells_are_counted_by_when_they_were_entered() -> None:
    visits = Visits("freeway", total=100)
    for step, cell in ((10, (0, 1, 1)), (30, (0, 1, 2)), (60, (1, 0, 0)), (80, (0, 1, 1))):
        visits.note(cell, step)
    assert visits.row() == {
        "cells_at_quarter": 1,
        "cells_at_half": 2,
        "cells": 3,
        "cells_in_last_quarter": 1,
        "rooms": 2,
        "points": 0.0,
        "games": 0,
    }


def test_the_player_of_montezuma_is_where_the_memory_says() -> None:
    """Two screens that differ by a walk to the right differ around the two places."""
    ale = emulator("montezuma_revenge", random_seed=1)
    ale.reset_game()
    names = [action.name for action in ale.getMinimalActionSet()]
    actions = dict(zip(names, ale.getMinimalActionSet(), strict=True))

    def look() -> tuple[np.ndarray, int, int]:
        ram = ale.getRAM()
        return ale.getScreenRGB().astype(int), int(ram[42]), int(ram[43])

    for _ in range(60):
        ale.act(actions["NOOP"])
    before, x_before, y_before = look()
    for _ in range(8):
        ale.act(actions["RIGHT"])
    after, x_after, y_after = look()
    assert x_after > x_before + 3
    assert y_after == y_before
    assert PLACES["montezuma_revenge"](ale.getRAM()) == (1, x_after // SIDE, y_after // SIDE)
    upper = np.abs(after - before).sum(2)[60:110]  # the player's ledge; skulls and beams are below
    columns = np.flatnonzero(upper.any(0))
    assert x_before - 8 <= columns.min() <= x_before + 8
    assert x_after - 8 <= columns.max() <= x_after + 12
