"""One colour and one marker per method, the same in every plot and in the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reprl.naming import is_baseline

# Okabe and Ito's colour-blind-safe colours without yellow, which vanishes on white; the second
# of each pair is the same hue lifted for dark backgrounds.
COLOURS = (
    ("#0072b2", "#5aaae6"),
    ("#d55e00", "#f4893f"),
    ("#009e73", "#35cda0"),
    ("#cc79a7", "#e7a3c8"),
    ("#b87a00", "#f2b632"),
    ("#3f9bd1", "#9bd8ff"),
)
GRAY = ("#6b7280", "#9aa3b2")
MARKERS = ("o", "s", "^", "D", "v", "P")  # the page draws the same shapes by index


@dataclass(frozen=True)
class Style:
    """How a method is drawn; `index` -1 is the gray of untrained baselines."""

    index: int
    light: str
    dark: str
    marker: str
    shape: int


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Styles in the order given: colours repeat after six methods, with another marker then."""
    out: dict[str, Style] = {}
    trained = [m for m in methods if not is_baseline(m)]
    for i, method in enumerate(trained):
        colour, shape = i % len(COLOURS), (i + i // len(COLOURS)) % len(MARKERS)
        out[method] = Style(colour, *COLOURS[colour], MARKERS[shape], shape)
    for i, method in enumerate(m for m in methods if is_baseline(m)):
        shape = (i + 3) % len(MARKERS)
        out[method] = Style(-1, *GRAY, MARKERS[shape], shape)
    return out
