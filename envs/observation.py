"""What an agent is shown of a picture besides gray frames: the true objects alone, or colour.

emulator -> picture -> **observation** -> rollout. Object-centric observations are the ceiling for
every attention mask: a mask that knows the truth. They can be made worse on purpose, object by
object, to see how good a mask must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from gymnasium import spaces

from reprl.envs.defaults import TRUTH_NOISE
from reprl.envs.games import Game, game, no_truth
from reprl.envs.machine import EnvSettings
from reprl.envs.objects import Box, Grid, Objects
from reprl.envs.picture import Picture
from reprl.errors import UserError
from reprl.settings import OBSERVATIONS

FRAMES = OBSERVATIONS[0]
WHITE = 255
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def channels_of(settings: EnvSettings, played: Game) -> int:
    """Channels of one frame: 3 in colour, one for each class in planes, otherwise 1."""
    if settings.observation == "planes":
        return len(played.classes)
    return 1 if settings.gray else 3


class FrameStack(spaces.Box):
    """A stack of frames with more than one channel each, (frames x channels, size, size) uint8.

    Parts that look at change, or at single frames, must know which channels belong together.
    """

    def __init__(self, shape: tuple[int, int, int], channels: int) -> None:
        super().__init__(0, 255, shape, np.uint8)
        self.channels = channels


def frame_channels(space: Any) -> int:
    """Channels of one frame in a space of stacks: 1 unless it says otherwise."""
    return int(getattr(space, "channels", 1))


def observation_space(settings: EnvSettings) -> spaces.Box:
    """What one environment shows."""
    channels = channels_of(settings, game(settings.game))
    shape = observation_shape(settings)
    return spaces.Box(0, 255, shape, np.uint8) if channels == 1 else FrameStack(shape, channels)


def newest_frame(observations: np.ndarray, channels: int) -> np.ndarray:
    """The newest frame of stacks (..., stack x channels, H, W) as one gray picture (..., H, W).

    Colours by their luminance; of planes the brightest.
    """
    if channels == 1:
        return observations[..., -1, :, :]
    newest = observations[..., -channels:, :, :]
    if channels != 3:
        return newest.max(axis=-3)
    gray = np.tensordot(newest.astype(np.float32), LUMINANCE, axes=([-3], [0]))
    return np.rint(gray).astype(np.uint8)


def observation_shape(settings: EnvSettings) -> tuple[int, int, int]:
    """Of one environment's observation: (stack x channels, size, size)."""
    channels = channels_of(settings, game(settings.game))
    return settings.stack * channels, settings.size, settings.size


def check_observation(settings: Any, played: Game, prefix: str = "") -> None:
    """Refuse a way to show a game that it cannot have, or that says nothing together.

    `settings` are those of an environment or the section of a configuration, whose keys begin with
    `prefix`.
    """
    shown, key = settings.observation, f"{prefix}observation={settings.observation}"
    if shown == FRAMES:
        for name in TRUTH_NOISE:
            if value := getattr(settings, name):
                raise UserError(
                    f"{prefix}{name}={value} is noise on the truth, of which {key} shows nothing: "
                    f"choose {prefix}observation from {', '.join(OBSERVATIONS[1:])}."
                )
    elif not played.has_truth or not played.classes:
        raise UserError(no_truth(key, settings.game))
    if shown not in (FRAMES, "objects") and not settings.gray:
        raise UserError(
            f"{key} has no colours: set {prefix}gray=true, or {prefix}observation=objects."
        )
    if settings.mislabelled and (len(played.classes) < 2 or shown not in ("classes", "planes")):
        raise UserError(
            f"{prefix}mislabelled={settings.mislabelled} exchanges classes, which {key} does not "
            f"show: choose {prefix}observation=classes or planes."
        )
    if settings.background is not None and (shown != FRAMES or not settings.gray):
        other = key if shown != FRAMES else f"{prefix}gray=false"
        raise UserError(
            f"{prefix}background={settings.background} remembers the game's gray frames: it cannot "
            f"go with {other}."
        )


def view_of(settings: EnvSettings, played: Game) -> ColourView | ObjectView | None:
    """How frames are shown; None is the picture itself, gray and small."""
    if settings.observation != FRAMES:
        return ObjectView(settings, played)
    return None if settings.gray else ColourView(settings.size)


class ColourView:
    """The picture in red, green and blue."""

    needs_objects = False

    def __init__(self, size: int) -> None:
        self._small = np.zeros((size, size, 3), np.uint8)

    def write(
        self,
        picture: Picture,
        objects: Objects | None,
        rng: np.random.Generator | None,
        out: np.ndarray,
    ) -> None:
        """Shrink the picture into `out`, (3, size, size) uint8."""
        shape = self._small.shape[1], self._small.shape[0]
        cv2.resize(picture.drawn(), shape, self._small, interpolation=cv2.INTER_AREA)
        out[:] = self._small.transpose(2, 0, 1)


class ObjectView:
    """Only the true objects: their pixels, or their boxes in white, by class or in planes.

    Noise is drawn anew in every observation, for each object by itself: a box, a cell of a grid,
    or a grid of single pixels as a whole. `missed` is the probability that it is not shown,
    `mislabelled` that it is shown as another class, `shifted` by how many pixels of the console
    each of its coordinates may be off.
    """

    needs_objects = True

    def __init__(self, settings: EnvSettings, played: Game) -> None:
        self.kind = settings.observation
        self.classes = played.classes
        self.missed, self.mislabelled = settings.missed, settings.mislabelled
        self.shifted = settings.shifted
        self._noisy = bool(self.missed or self.mislabelled or self.shifted)
        self._size = settings.size
        steps = len(self.classes)
        self._grays = [WHITE * (steps - k) // steps for k in range(steps)]  # the first is white

    def write(
        self,
        picture: Picture,
        objects: Objects | None,
        rng: np.random.Generator | None,
        out: np.ndarray,
    ) -> None:
        """Show what is there in `out`, (channels, size, size) uint8."""
        assert objects is not None
        masks = self._masks(objects, rng)  # by class, bool of the console's size
        if self.kind == "planes":
            shown = [mask.astype(np.uint8) * WHITE for mask in masks]
        elif self.kind == "classes":
            labels = np.zeros(objects.raw, np.uint8)
            for mask, gray in reversed(list(zip(masks, self._grays, strict=True))):
                labels[mask] = gray  # the first classes, boxes, in front
            shown = [labels]
        else:
            seen = np.logical_or.reduce(masks)
            if self.kind == "binary":
                shown = [seen.astype(np.uint8) * WHITE]
            elif len(out) == 3:
                shown = list((picture.drawn() * seen[..., None]).transpose(2, 0, 1))
            else:
                shown = [picture.gray() * seen]
        for channel, whole in zip(out, shown, strict=True):
            channel[:] = cv2.resize(
                np.ascontiguousarray(whole), (self._size,) * 2, interpolation=cv2.INTER_AREA
            )

    def _masks(self, objects: Objects, rng: np.random.Generator | None) -> list[np.ndarray]:
        """Which pixels each class covers, as far as it is seen and told apart."""
        raw = objects.raw
        masks = [np.zeros(raw, bool) for _ in self.classes]
        if not self._noisy:
            for k, name in enumerate(self.classes):
                if name in objects.grids:
                    masks[k] |= objects.grids[name].mask(raw)
                elif (box := objects.boxes[name]) is not None:
                    masks[k][objects.painted.get(name, box).slices(raw)] = True
            return masks
        assert rng is not None
        things = list(self._things(objects))
        kept = rng.random(len(things)) >= self.missed
        wrong = rng.random(len(things)) < self.mislabelled
        other = rng.integers(1, max(len(self.classes), 2), len(things))
        moved = rng.integers(-self.shifted, self.shifted + 1, (len(things), 2))
        for i, (k, thing) in enumerate(things):
            if not kept[i]:
                continue
            label = (k + int(other[i])) % len(self.classes) if wrong[i] else k
            dx, dy = (int(v) for v in moved[i])
            if isinstance(thing, Box):
                place = Box(thing.x + dx, thing.y + dy, thing.w, thing.h)
                masks[label][place.slices(raw)] = True
            else:
                masks[label] |= _moved(thing.mask(raw), dx, dy)
        return masks

    def _things(self, objects: Objects) -> Iterator[tuple[int, Box | Grid]]:
        """Every object with the position of its class."""
        for k, name in enumerate(self.classes):
            if name not in objects.grids:
                if (box := objects.boxes[name]) is not None:
                    yield k, objects.painted.get(name, box)
                continue
            grid = objects.grids[name]
            if grid.w == grid.h == 1:
                yield k, grid
                continue
            for row, column in zip(*np.nonzero(grid.cells), strict=True):
                x, y = grid.x + int(column) * grid.w, grid.y + int(row) * grid.h
                cell: Box | None = Box(x, y, grid.w, grid.h)
                if grid.warp is not None and cell is not None:
                    cell = cell.warped(grid.warp, objects.raw)
                if cell is not None:
                    yield k, cell


def _moved(mask: np.ndarray, dx: int, dy: int) -> np.ndarray:
    """A mask moved right and down; what leaves the picture is gone."""
    out = np.zeros_like(mask)
    height, width = mask.shape
    target = slice(max(dy, 0), height + min(dy, 0)), slice(max(dx, 0), width + min(dx, 0))
    source = slice(max(-dy, 0), height + min(-dy, 0)), slice(max(-dx, 0), width + min(-dx, 0))
    out[target] = mask[source]
    return out
