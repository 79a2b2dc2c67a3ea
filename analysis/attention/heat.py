"""How attention is coloured everywhere: as a multiple of what an even map would have.

Transparent at 1 (and below), full at 3, on a fixed scale: an even map leaves the frame as it is,
and maps of different agents and moments can be compared by eye. The explorer reads the same
numbers.
"""

from __future__ import annotations

import numpy as np

EVEN, FULL = 1.0, 3.0  # multiples at which heat begins and is full
STRENGTH = 0.85  # how opaque full heat is
COOL, HOT = (235, 70, 160), (255, 225, 90)  # where heat begins, and where it is full
LEVELS = 16  # of a map in a film: 4 bits
RATIO_STEPS = (LEVELS - 1) / FULL  # levels for each multiple


def level(ratio: np.ndarray) -> np.ndarray:
    """How hot a place is, 0 to 1, from its multiple of an even map."""
    return np.clip((ratio - EVEN) / (FULL - EVEN), 0.0, 1.0)


def heat(frame: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """A frame (H, W, 3) under the heat of a map (H, W) of multiples."""
    hot = level(ratio)[..., None]
    colour = np.array(COOL) * (1 - hot) + np.array(HOT) * hot
    opacity = STRENGTH * np.sqrt(hot)
    return (frame * (1 - opacity) + colour * opacity).round().astype(np.uint8)
