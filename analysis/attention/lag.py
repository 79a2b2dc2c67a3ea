"""Lag of attention behind an object: which of its earlier positions the maps fit best.

It is more often in some places at some shifts, which a map that never moves would fit too:
every shift is compared with what the average map gets at it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reprl.analysis.attention.scores import Maps, Masks, auc_from_ranks, pixel_ranks
from reprl.analysis.stats import Array
from reprl.rng import numpy_stream

LONGEST = 8  # agent steps, half a second of the game
SMALLEST_PEAK = 0.02  # AUC the best shift must stand above the median one and the average map
RESAMPLES = 2000


@dataclass(frozen=True)
class Lag:
    """The best shift in agent steps, its 95 % interval over games, and AUC gained by shift."""

    value: float  # positive: behind; NaN where no shift stands out, so nothing follows the object
    low: float
    high: float
    shifts: tuple[int, ...]
    curve: Array  # (S,) mean AUC at each shift, above that of the average map
    n_frames: int


def object_lag(
    maps: Maps,
    there: Masks,  # (N, H, W), where the object is
    blocks: NDArray[np.integer],
    times: NDArray[np.integer],
    *,
    every: int = 1,
) -> Lag:
    """Compare each map with the object's mask some steps earlier (or later), at every shift alike.

    Shifts run from two looks ahead to `LONGEST` steps behind, a look being taken at each
    `every`-th step. Frames count only if it is on the screen at every shift within the
    same block, so that shifts are compared on the same maps; `times` numbers a block's steps.
    """
    shifts = tuple(every * k for k in range(-2, LONGEST // every + 1))
    place = {(int(b), int(t)): i for i, (b, t) in enumerate(zip(blocks, times, strict=True))}
    seen = np.asarray(there.any(axis=(1, 2)))
    partners = []  # per usable frame: itself and its index at every shift
    for i in range(len(maps)):
        found = [place.get((int(blocks[i]), int(times[i]) - s), -1) for s in shifts]
        if all(j >= 0 and seen[j] for j in found):
            partners.append([i, *found])
    nothing = Lag(np.nan, np.nan, np.nan, shifts, np.full(len(shifts), np.nan), len(partners))
    if not partners:
        return nothing
    table = np.array(partners)  # (F, 1 + S)
    used = maps[table[:, 0]]
    total = used.sum(axis=(1, 2), keepdims=True)
    still = (used / np.where(total > 0, total, 1)).mean(axis=0, keepdims=True)  # (1, H, W)
    ranks, still_ranks = pixel_ranks(used), pixel_ranks(still)
    earlier = [there[table[:, 1 + s]] for s in range(len(shifts))]
    fits = np.stack(
        [auc_from_ranks(ranks, b) - auc_from_ranks(still_ranks, b) for b in earlier], axis=1
    )  # (F, S)
    curve = fits.mean(axis=0)
    best = int(curve.argmax())
    at_the_edge = best in (0, len(shifts) - 1)  # the true peak, if any, is beyond
    if at_the_edge or curve[best] - max(np.median(curve), 0) < SMALLEST_PEAK:
        return Lag(np.nan, np.nan, np.nan, shifts, curve, len(table))
    games, index = np.unique(blocks[table[:, 0]], return_inverse=True)
    sums = np.stack([np.bincount(index, fits[:, s]) for s in range(len(shifts))], axis=1)
    if len(games) < 2:
        return Lag(float(shifts[best]), np.nan, np.nan, shifts, curve, len(table))
    # The best shift jumps between whole numbers, so a percentile bootstrap over whole games.
    counts = np.bincount(index)
    draws = numpy_stream(0, "attention", "lag").integers(len(games), size=(RESAMPLES, len(games)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)[:, None]  # (R, S)
    low, high = np.quantile(np.array(shifts)[means.argmax(axis=1)], [0.025, 0.975])
    return Lag(float(shifts[best]), float(low), float(high), shifts, curve, len(table))
