"""One colour and one marker per method, the same in every plot and in the page.

A method's colour follows from its name, so it is the same in every report as long as no other
method there has the same claim to it; the plain agent is always slate.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reprl.naming import is_baseline

# Colour-blind-safe hues as text on white (contrast of at least 4.5) and lifted as text on black.
COLOURS = (
    ("#0067a5", "#6ab4ee"),
    ("#bd4b00", "#f59452"),
    ("#007a58", "#3fd0a5"),
    ("#b03a7c", "#ee9fca"),
    ("#8a6100", "#eebd49"),
    ("#007a8c", "#5fd0e0"),
    ("#6a4fc0", "#b9a5ff"),
    ("#587300", "#b5d24a"),
)
PLAIN = ("#3f4854", "#c3cbd6")
PLAIN_INDEX = len(COLOURS)
GRAY = ("#5f6773", "#9aa3b2")
MARKERS = ("o", "s", "^", "D", "v", "P")  # the page draws the same shapes by index


@dataclass(frozen=True)
class Style:
    """How a method is drawn; `index` -1 is the gray of untrained baselines."""

    index: int
    light: str
    dark: str
    marker: str
    shape: int


def styles(methods: Sequence[str], plain: Collection[str] = ()) -> dict[str, Style]:
    """Styles of methods; beyond the eighth colours repeat, with another marker then."""
    out: dict[str, Style] = {}
    chosen = _colours([m for m in methods if not is_baseline(m) and m not in plain])
    used: dict[int, int] = {}
    for method in methods:
        if is_baseline(method):
            continue
        colour = PLAIN_INDEX if method in plain else chosen[method]
        again = used[colour] = used.get(colour, -1) + 1
        shape = (colour + again) % len(MARKERS)
        pair = PLAIN if colour == PLAIN_INDEX else COLOURS[colour]
        out[method] = Style(colour, *pair, MARKERS[shape], shape)
    for i, method in enumerate(m for m in methods if is_baseline(m)):
        shape = (i + 3) % len(MARKERS)
        out[method] = Style(-1, *GRAY, MARKERS[shape], shape)
    return out


def _colours(methods: Sequence[str]) -> dict[str, int]:
    """Each name's own colour, or the next free one; in the order of names, not of folders."""
    out: dict[str, int] = {}
    free = set(range(len(COLOURS)))
    for method in sorted(methods):
        free = free or set(range(len(COLOURS)))
        own = zlib.crc32(method.encode()) % len(COLOURS)
        colour = min(free, key=lambda c: (c - own) % len(COLOURS))
        free.discard(colour)
        out[method] = colour
    return out


def css(dark: bool) -> str:
    """The colours as custom properties of a style sheet, `--c0` and on; `--c-1` is the gray."""
    pairs = {-1: GRAY, **dict(enumerate(COLOURS)), PLAIN_INDEX: PLAIN}
    return " ".join(f"--c{index}: {pair[dark]};" for index, pair in pairs.items())
