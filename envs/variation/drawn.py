"""The variants that draw something over the game: the four published ones and their relatives."""

from __future__ import annotations

from typing import Any

from reprl.envs.variation.base import Part, Variant

_BLUE, _RED, _GREEN, _YELLOW = [0, 191, 255], [255, 0, 0], [102, 203, 50], [210, 203, 50]
PLAYER_GRAY = 110  # what the agent sees of paddle and ball


def _drawn(name: str, shape: str, text: str, **parameters: Any) -> Variant:
    part = Part(f"reprl.envs.variation.shapes:{shape}", {**parameters, "severity": 0.5})
    return Variant(name, "drawing", severity=0.5, help=text, effects=(part,))


VARIANTS = (
    _drawn(
        "constant_rectangle",
        "Rectangles",
        "A blue rectangle that stands still above the paddle.",
        height=2,
        width=4,
        at=[[60, 60]],
        colour=_BLUE,
    ),
    _drawn(
        "moving_square",
        "MovingSquare",
        "A red square that jumps among three places every 1000 observations.",
        colour=_RED,
    ),
    _drawn(
        "green_lines",
        "Lines",
        "Six green horizontal lines of falling length.",
        direction="horizontal",
        published=True,
        colour=_GREEN,
    ),
    _drawn(
        "diagonals",
        "Lines",
        "Six yellow parallel diagonals.",
        direction="diagonal",
        published=True,
        colour=_YELLOW,
    ),
    _drawn(
        "green_lines_under",
        "Lines",
        "The green lines behind ball, paddle and bricks: nothing is ever hidden.",
        direction="horizontal",
        published=True,
        colour=_GREEN,
        under=True,
    ),
    _drawn(
        "green_lines_matched",
        "Lines",
        "The green lines as bright as paddle and ball: shape without a new gray value.",
        direction="horizontal",
        published=True,
        colour=_GREEN,
        luminance=PLAYER_GRAY,
    ),
    _drawn(
        "random_lines",
        "Lines",
        "Six green horizontal lines at places drawn for each game.",
        direction="horizontal",
        colour=_GREEN,
    ),
    _drawn(
        "vertical_lines",
        "Lines",
        "Four green vertical lines at places drawn for each game.",
        direction="vertical",
        count=4,
        colour=_GREEN,
    ),
    _drawn(
        "random_squares",
        "Rectangles",
        "Eight squares at places drawn for each game.",
        count=8,
        colour=_BLUE,
    ),
    _drawn(
        "ball_decoys",
        "Rectangles",
        "Six spots of the ball's size and colour that stand still all game.",
        count=6,
        height=2,
        width=1,
        colour=[200, 72, 72],
    ),
)
