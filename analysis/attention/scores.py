"""Accuracy of attention: maps against the masks of what is really on the screen.

Pure functions on arrays of N frames of H x W pixels. A mask that is the same in all cells, an all
black one included, says nothing about where to look and scores exactly chance. On pixels it need
not be even: cells of a network without padding leave the border out. `uniform` (H, W) is what it
looks like there, None where it is even.
"""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from reprl.analysis.stats import Array, Estimate, estimate

METRICS = ("energy", "pointing", "auc")
TOLERANCE = 2.0  # pixels of the 84 px view: half a cell of the finest mask (21 x 21)
COLUMNS = ("object", "metric", "value", "low", "high", "chance", "static", "ceiling")
Maps = NDArray[np.floating]
Masks = NDArray[np.bool_]


def relative(maps: Maps, uniform: Maps | None) -> Maps:
    """Maps over the uniform one, each with maximum 1: where a mask stands above its own average.

    Rounded to 4 digits, as pixels of equal cells differ by the error of the projection.
    """
    if uniform is None:
        return maps
    reached = uniform > 1e-30 * uniform.max()
    ratio = np.divide(maps, uniform, out=np.zeros(maps.shape, np.float32), where=reached)
    # No cell reaches these pixels: they are neither above nor below the average.
    ratio[:, ~reached] = maps.sum(axis=(1, 2))[:, None] / uniform.sum()
    top = ratio.max(axis=(1, 2), keepdims=True)
    digits, exponent = np.frexp(ratio / np.where(top > 0, top, 1))
    return np.ldexp(np.round(digits * 2**14) / 2**14, exponent)


def energy(maps: Maps, mask: Masks, uniform: Maps | None = None) -> Array:
    """The share of each map's mass inside the mask, (N,); NaN where the mask is empty."""
    flat = np.asarray(maps, float).reshape(len(maps), -1)
    inside = mask.reshape(len(mask), -1)
    total = flat.sum(axis=1)
    even = 1.0 if uniform is None else uniform.reshape(1, -1)
    flat = np.where(total[:, None] > 0, flat, even)  # black: as uniform
    share = (flat * inside).sum(axis=1) / flat.sum(axis=1)
    return np.where(inside.any(axis=1), share, np.nan)


def pointing(
    maps: Maps, mask: Masks, tolerance: float = TOLERANCE, peaks: sparse.csr_array | None = None
) -> Array:
    """1 where the maximum lies within `tolerance` pixels of the mask, else 0; (N,).

    Several equal maxima count by the share of them that hit. With `peaks` (see `cell_peaks`) maps
    are the weights of cells (N, M), each at its peak: on pixels the cells of a mask blur into one
    another, and several together would outshine the one with the largest weight.
    """
    near = grown(mask, tolerance).reshape(len(mask), -1)
    level = np.asarray(maps, float).reshape(len(maps), -1)
    hit = near.astype(float) if peaks is None else (peaks @ near.T).T  # (N, H*W or M)
    top = level >= level.max(axis=1, keepdims=True) * (1 - 1e-6)
    hits = (top * hit).sum(axis=1) / top.sum(axis=1)
    return np.where(near.any(axis=1), hits, np.nan)


def cell_peaks(cells: Maps) -> sparse.csr_array:
    """Where each of the cells (M, H, W) is strongest, (M, H*W), every row summing to 1."""
    flat = np.asarray(cells, float).reshape(len(cells), -1)
    top = flat >= flat.max(axis=1, keepdims=True) * (1 - 1e-6)
    return sparse.csr_array(top / top.sum(axis=1, keepdims=True))


def auc(maps: Maps, mask: Masks) -> Array:
    """How well each map separates the mask's pixels from all others, area under ROC, (N,)."""
    return auc_from_ranks(pixel_ranks(maps), mask)


def pixel_ranks(maps: Maps) -> NDArray[np.float32]:
    """Each pixel's rank within its map from 1 up, ties averaged, (N, H*W)."""
    flat = np.asarray(maps, np.float32).reshape(len(maps), -1)
    out = np.empty_like(flat)
    for start in range(0, len(flat), 128):  # rankdata works in float64: keep that small
        out[start : start + 128] = stats.rankdata(flat[start : start + 128], axis=1)
    return out


def auc_from_ranks(ranks: NDArray[np.float32], mask: Masks) -> Array:
    """`auc` for maps whose ranks are known; NaN where the mask is empty or everything."""
    inside = mask.reshape(len(mask), -1)
    ones = inside.sum(axis=1).astype(float)
    pairs = ones * (inside.shape[1] - ones)
    wins = np.where(inside, ranks, 0).sum(axis=1, dtype=float) - ones * (ones + 1) / 2
    return np.divide(wins, pairs, out=np.full(len(mask), np.nan), where=pairs > 0)


def grown(mask: Masks, tolerance: float) -> Masks:
    """The masks with every pixel within `tolerance` of them."""
    if tolerance <= 0:
        return mask
    reach = int(tolerance)
    offsets = np.arange(-reach, reach + 1)
    disk = (offsets[:, None] ** 2 + offsets[None] ** 2 <= tolerance**2).astype(np.uint8)
    return np.stack([cv2.dilate(m.astype(np.uint8), disk) > 0 for m in mask])


def chance(
    metric: str,
    mask: Masks,
    tolerance: float = TOLERANCE,
    *,
    uniform: Maps | None = None,
    peaks: sparse.csr_array | None = None,
) -> Array:
    """What a mask that is the same everywhere gets, (N,): for pixels the area it has to hit."""
    if metric == "auc":
        return np.full(len(mask), 0.5)
    if metric == "pointing":
        near = grown(mask, tolerance).reshape(len(mask), -1)
        return near.mean(axis=1) if peaks is None else (peaks @ near.T).mean(axis=0)
    flat = mask.reshape(len(mask), -1)
    return flat.mean(axis=1) if uniform is None else flat @ uniform.ravel() / uniform.sum()


def ceiling(cells: Maps, mask: Masks) -> Array:
    """The most energy any map made of these cells (M, H, W) can put into each mask, (N,)."""
    flat = np.asarray(cells, np.float32).reshape(len(cells), -1)
    shares = mask.reshape(len(mask), -1).astype(np.float32) @ flat.T / flat.sum(axis=1)  # (N, M)
    return shares.max(axis=1).astype(float)


def over_blocks(values: Array, blocks: NDArray[np.integer]) -> Estimate:
    """The mean over frames with a 95 % interval over whole games.

    Frames of one game are alike, so games are what is left out or resampled.
    """
    known = np.isfinite(values)
    _, index = np.unique(blocks[known], return_inverse=True)
    if not known.any():
        return Estimate(np.nan, np.nan, np.nan, 0)
    sums = np.stack([np.bincount(index, values[known]), np.bincount(index)], axis=1)  # (games, 2)
    return estimate(lambda rows: float(rows[:, 0].sum() / rows[:, 1].sum()), sums)


def attention_scores(
    maps: Maps,
    masks: Mapping[str, Masks],
    blocks: NDArray[np.integer],
    *,
    cells: Maps | None = None,
    weights: Maps | None = None,
    uniform: Maps | None = None,
    tolerance: float = TOLERANCE,
) -> pd.DataFrame:
    """Scores per object class of `masks`, in their order, a row a class and metric.

    `blocks` (N,) numbers the game each frame is from. `static` is what the average map would
    have got had it never moved: attention that follows an object is above it. `ceiling` is the
    most energy a map made of `cells` (M, H, W) could reach, the finest the mask can point.
    `weights` (N, M) are the mask's own, one a cell: it points at the cell with the largest, at
    that cell's peak. `uniform` (H, W) is a mask that is the same everywhere: energy is compared
    with its share of the object, AUC scores the map relative to it.
    Frames in which a class is absent do not count; a class that never appears has no rows.
    """
    maps = np.asarray(maps, np.float32)
    blocks = np.asarray(blocks)
    _check(maps, masks, blocks)
    still = _shares(maps).mean(axis=0, keepdims=True)  # (1, H, W)
    above, still_above = relative(maps, uniform), relative(still, uniform)
    ranks, still_ranks = pixel_ranks(above), pixel_ranks(still_above)
    peaks = None
    pointed, still_pointed = above, still_above
    if cells is not None and weights is not None:
        peaks, pointed = cell_peaks(cells), np.asarray(weights, float)
        still_pointed = _shares(pointed).mean(axis=0, keepdims=True)  # (1, M)
    rows = []
    for name in masks:
        present = masks[name].any(axis=(1, 2))
        if not present.any():
            continue
        mask, here = masks[name][present], maps[present]
        fixed = np.broadcast_to(still, here.shape)
        fixed_pointed = np.broadcast_to(still_pointed, (len(here), *still_pointed.shape[1:]))
        scored = {
            "energy": (energy(here, mask, uniform), energy(fixed, mask, uniform)),
            "pointing": (
                pointing(pointed[present], mask, tolerance, peaks),
                pointing(fixed_pointed, mask, tolerance, peaks),
            ),
            "auc": (auc_from_ranks(ranks[present], mask), auc_from_ranks(still_ranks, mask)),
        }
        for metric, (values, unmoved) in scored.items():
            found = over_blocks(values, blocks[present])
            if not np.isfinite(found.value):  # AUC of a class that fills the picture
                continue
            limit = 1.0
            if metric == "energy" and cells is not None:
                limit = float(ceiling(cells, mask).mean())
            known = chance(metric, mask, tolerance, uniform=uniform, peaks=peaks)
            guess = float(known.mean())
            low, high = np.clip([found.low, found.high], 0, 1)  # a t interval knows no limits
            numbers = (found.value, low, high, guess, float(np.nanmean(unmoved)), limit)
            counts = {"n_frames": int(present.sum()), "n_games": found.n_seeds}
            row = dict(zip(COLUMNS, (name, metric, *numbers), strict=True))
            rows.append(row | counts)
    return pd.DataFrame(rows, columns=[*COLUMNS, "n_frames", "n_games"])


def _shares(maps: Maps) -> Maps:
    """Each map divided by its sum; black ones stay black."""
    total = maps.sum(axis=tuple(range(1, maps.ndim)), keepdims=True)
    return maps / np.where(total > 0, total, 1)


def _check(maps: Maps, masks: Mapping[str, Masks], blocks: NDArray[np.integer]) -> None:
    if maps.ndim != 3 or not len(maps) or len(blocks) != len(maps):
        raise ValueError(f"maps must be (N, H, W) with N blocks: {maps.shape}, {blocks.shape}")
    if not np.isfinite(maps).all() or maps.min() < 0:
        raise ValueError("attention maps must be finite and not negative")
    for name, mask in masks.items():
        if mask.shape != maps.shape or mask.dtype != bool:
            raise ValueError(f"mask of {name} is {mask.dtype} {mask.shape}, maps {maps.shape}")
