"""Schedules of several pieces: values worked out by hand, and the spec that builds them again."""

import math
from typing import Any

import pytest

from reprl.schedules import scaled, schedule
from tests.helpers import refuses

PIECES: dict[str, Any] = {"kind": "piecewise", "points": [[0, 1.0], [0.25, 3.0], [1, 0.0]]}
CYCLE: dict[str, Any] = {"kind": "one_cycle", "start": 1.0, "peak": 5.0, "end": 0.0, "peak_at": 0.2}


@pytest.mark.parametrize(
    ("done", "value"), [(0, 1.0), (0.125, 2.0), (0.25, 3.0), (0.625, 1.5), (1, 0.0), (1.1, 0.0)]
)
def test_piecewise_goes_straight_from_point_to_point(done: float, value: float) -> None:
    assert schedule(PIECES)(1 - done) == pytest.approx(value)


@pytest.mark.parametrize(
    ("done", "value"), [(0, 1.0), (0.1, 3.0), (0.2, 5.0), (0.6, 2.5), (1, 0.0)]
)
def test_one_cycle_climbs_to_its_peak_and_falls(done: float, value: float) -> None:
    assert schedule(CYCLE)(1 - done) == pytest.approx(value)


def test_one_cycle_moves_on_cosines() -> None:
    assert schedule(CYCLE)(0.95) == pytest.approx(1 + 4 * 0.5 * (1 - math.cos(math.pi / 4)))


@pytest.mark.parametrize("spec", [PIECES, CYCLE])
def test_a_spec_builds_itself_again_and_scales(spec: dict[str, Any]) -> None:
    made = schedule(spec)
    again, twice = schedule(made.plain()), schedule(scaled(spec, 2.0))
    for left in (1.0, 0.9, 0.5, 0.1, 0.0):
        assert again(left) == made(left)
        assert twice(left) == pytest.approx(2 * made(left))


def test_what_is_no_schedule_is_refused() -> None:
    for points in (
        [[0, 1]],
        [[0, 1], [0.5, 2]],
        [[0, 1], [0.6, 2], [0.5, 3], [1, 0]],
        "up",
        [1, 2],
    ):
        with refuses("schedule.points"):
            schedule({"kind": "piecewise", "points": points})
    with refuses("start", "piecewise"):
        schedule(PIECES | {"start": 1.0})
    with refuses("warmup"):
        schedule(CYCLE | {"warmup": 0.1})
    with refuses("peak_at=1"):
        schedule(CYCLE | {"peak_at": 1})
