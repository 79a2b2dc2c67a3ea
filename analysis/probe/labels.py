"""What probes are asked for: numbers and yes/no answers about the objects of recorded moments.

objects -> **labels**, places as pixels of the agent's own picture. Names come from the game's boxes
and grids, so that every game with truth has labels; those that hardly vary are left out and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reprl.envs.games import Game
from reprl.envs.objects import Box, Objects

MOST_CELLS = 400  # of a grid whose cells are asked for one by one
SEEN = 0.25  # the share of frames in which an object must be on the screen to be asked for
RARE = 0.02  # a label must differ from its commonest value in this share of the frames,
FEWEST = 5  # and in as many frames


@dataclass
class Labels:
    """L labels of n frames; columns with one name (the cells of a grid) are scored by their mean.

    `frames` are the recorded moments the rows belong to: those with every object in view.
    """

    names: list[str]
    units: list[str]
    values: np.ndarray  # (n, L) float64, yes 1 and no 0
    yes_no: np.ndarray  # (L,) bool
    frames: np.ndarray  # (n,) int
    left_out: dict[str, str] = field(default_factory=dict)  # name -> why

    def only(self, kept: np.ndarray) -> Labels:
        """The labels (L,) that are kept."""
        places = np.flatnonzero(kept)
        return Labels(
            [self.names[i] for i in places],
            [self.units[i] for i in places],
            self.values[:, places],
            self.yes_no[places],
            self.frames,
            self.left_out,
        )

    def varies(self) -> np.ndarray:
        """Which labels take other values than their commonest often enough to be probed: (L,)."""
        n = len(self.values)
        found = []
        for column in self.values.T:
            commonest = np.unique(column, return_counts=True)[1].max() if n else 0
            found.append(n - commonest >= max(FEWEST, RARE * n))
        return np.array(found, dtype=bool)


def labels_of(
    objects: Sequence[Objects], before: Sequence[Objects | None], game: Game, size: tuple[int, int]
) -> Labels:
    """All labels of moments and of the step before each; None where a game had just begun."""
    columns: list[tuple[str, str, bool, np.ndarray]] = []
    left_out: dict[str, str] = {}
    for name in objects[0].boxes:
        now = _centres([o.boxes[name] for o in objects], objects, size)  # (N, 2)
        seen = ~np.isnan(now[:, 0])
        if seen.mean() < SEEN:
            left_out[name] = f"in view in {seen.mean():.0%} of the frames"
            continue
        pixel = np.floor(now)  # that which holds the middle: the agent's picture shows no less
        columns += [(f"{name}_{axis}", "px", False, pixel[:, i]) for i, axis in enumerate("xy")]
        if game.tracked in (None, name):
            then = _centres(
                [o.boxes[name] if o is not None else None for o in before], objects, size
            )
            moved = now - then  # (N, 2) pixels a step
            for i, axis in enumerate("xy"):
                sign = np.where(np.isnan(moved[:, i]), np.nan, moved[:, i] > 0)
                columns.append((f"{name}_d{axis}", "yes/no", True, sign))
            columns.append((f"{name}_speed", "px/step", False, np.hypot(*moved.T)))
    for name, grid in objects[0].grids.items():
        cells = np.stack([o.grids[name].cells.ravel() for o in objects]).astype(np.float64)
        columns.append((f"{name}_left", "cells", False, cells.sum(axis=1)))
        if grid.cells.size > MOST_CELLS:
            left_out[f"{name}_each"] = f"{grid.cells.size} cells"
        else:
            columns += [(f"{name}_each", "yes/no", True, column) for column in cells.T]
    columns.append(("lives", "lives", False, np.array([float(o.lives) for o in objects])))
    columns.append(("score", "points", False, np.array([float(o.score) for o in objects])))
    values = np.stack([column for *_, column in columns], axis=1)
    whole = ~np.isnan(values).any(axis=1)
    return Labels(
        names=[name for name, *_ in columns],
        units=[unit for _, unit, *_ in columns],
        values=values[whole],
        yes_no=np.array([yes_no for _, _, yes_no, _ in columns]),
        frames=np.flatnonzero(whole),
        left_out=left_out,
    )


def matched(fit: Labels, read: Labels) -> tuple[Labels, Labels]:
    """Both with the labels that vary in both; of the others `left_out` says so."""
    shared = set(fit.names) & set(read.names)
    for one, other in ((fit, read), (read, fit)):
        one.left_out.update({k: v for k, v in other.left_out.items() if k not in one.left_out})
    fit = fit.only(np.array([name in shared for name in fit.names]))
    read = read.only(np.array([name in shared for name in read.names]))
    both = fit.varies() & read.varies()
    fit.left_out |= {
        name: "hardly varies"
        for name in dict.fromkeys(fit.names)
        if not any(k for n, k in zip(fit.names, both, strict=True) if n == name)
    }
    return fit.only(both), read.only(both)


def _centres(
    boxes: Sequence[Box | None], objects: Sequence[Objects], size: tuple[int, int]
) -> np.ndarray:
    """The middles (N, 2) in a picture of `size` (height, width), NaN for what is not in view."""
    shape = objects[0].shape
    return np.array([b.scaled(size, shape).center if b else (np.nan, np.nan) for b in boxes])
