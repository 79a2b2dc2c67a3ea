"""Accuracy of attention: maps against the masks of what is really on the screen.

Pure functions on arrays of N frames of H x W pixels. A constant map, an all black one included,
says nothing about where to look and scores exactly chance.
"""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from reprl.analysis.statistics import Array, Estimate, estimate

CLASSES = ("ball", "paddle", "bricks", "distractor", "background")
METRICS = ("energy", "pointing", "auc")
TOLERANCE = 2.0  # pixels of the 84 px view: half a cell of the finest mask (21 x 21)
COLUMNS = ("object", "metric", "value", "low", "high", "chance", "static", "ceiling")
Maps = NDArray[np.floating]
Masks = NDArray[np.bool_]


def energy(maps: Maps, mask: Masks) -> Array:
    """The share of each map's mass inside the mask, (N,); NaN where the mask is empty."""
    flat = np.asarray(maps, float).reshape(len(maps), -1)
    inside = mask.reshape(len(mask), -1)
    total = flat.sum(axis=1)
    flat = np.where(total[:, None] > 0, flat, 1.0)  # black: as uniform
    share = (flat * inside).sum(axis=1) / flat.sum(axis=1)
    return np.where(inside.any(axis=1), share, np.nan)


def pointing(maps: Maps, mask: Masks, tolerance: float = TOLERANCE) -> Array:
    """1 where the maximum lies within `tolerance` pixels of the mask, else 0; (N,).

    Several equal maxima count by the share of them that hit.
    """
    near = grown(mask, tolerance).reshape(len(mask), -1)
    flat = np.asarray(maps, float).reshape(len(maps), -1)
    top = flat >= flat.max(axis=1, keepdims=True) * (1 - 1e-6)
    hits = (top & near).sum(axis=1) / top.sum(axis=1)
    return np.where(near.any(axis=1), hits, np.nan)


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


def chance(metric: str, mask: Masks, tolerance: float = TOLERANCE) -> Array:
    """What a map that knows nothing gets on average: the area it has to hit, (N,)."""
    if metric == "auc":
        return np.full(len(mask), 0.5)
    area = grown(mask, tolerance) if metric == "pointing" else mask
    return area.reshape(len(mask), -1).mean(axis=1)


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
    tolerance: float = TOLERANCE,
) -> pd.DataFrame:
    """Scores per object class, a row a class and metric.

    `blocks` (N,) numbers the game each frame is from. `static` is what the average map would
    have got had it never moved: attention that follows an object is above it. `ceiling` is the
    most energy a map made of `cells` (M, H, W) could reach, the finest the mask can point.
    Frames in which a class is absent do not count; a class that never appears has no rows.
    """
    maps = np.asarray(maps, np.float32)
    blocks = np.asarray(blocks)
    _check(maps, masks, blocks)
    total = maps.sum(axis=(1, 2), keepdims=True)
    still = (maps / np.where(total > 0, total, 1)).mean(axis=0, keepdims=True)  # (1, H, W)
    ranks, still_ranks = pixel_ranks(maps), pixel_ranks(still)
    rows = []
    for name in [c for c in CLASSES if c in masks]:
        present = masks[name].any(axis=(1, 2))
        if not present.any():
            continue
        mask, here = masks[name][present], maps[present]
        fixed = np.broadcast_to(still, here.shape)
        scored = {
            "energy": (energy(here, mask), energy(fixed, mask)),
            "pointing": (pointing(here, mask, tolerance), pointing(fixed, mask, tolerance)),
            "auc": (auc_from_ranks(ranks[present], mask), auc_from_ranks(still_ranks, mask)),
        }
        for metric, (values, unmoved) in scored.items():
            found = over_blocks(values, blocks[present])
            if not np.isfinite(found.value):  # AUC of a class that fills the picture
                continue
            limit = 1.0
            if metric == "energy" and cells is not None:
                limit = float(ceiling(cells, mask).mean())
            guess = float(chance(metric, mask, tolerance).mean())
            low, high = np.clip([found.low, found.high], 0, 1)  # a t interval knows no limits
            numbers = (found.value, low, high, guess, float(np.nanmean(unmoved)), limit)
            counts = {"n_frames": int(present.sum()), "n_games": found.n_seeds}
            row = dict(zip(COLUMNS, (name, metric, *numbers), strict=True))
            rows.append(row | counts)
    return pd.DataFrame(rows, columns=[*COLUMNS, "n_frames", "n_games"])


def _check(maps: Maps, masks: Mapping[str, Masks], blocks: NDArray[np.integer]) -> None:
    if maps.ndim != 3 or not len(maps) or len(blocks) != len(maps):
        raise ValueError(f"maps must be (N, H, W) with N blocks: {maps.shape}, {blocks.shape}")
    if not np.isfinite(maps).all() or maps.min() < 0:
        raise ValueError("attention maps must be finite and not negative")
    for name, mask in masks.items():
        if mask.shape != maps.shape or mask.dtype != bool:
            raise ValueError(f"mask of {name} is {mask.dtype} {mask.shape}, maps {maps.shape}")
