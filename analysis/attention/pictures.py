"""Pictures of attention: the frame beside its map, clean and varied, and what the mask leaves.

Heat (heat.py) lies over the real frame on a fixed scale; objects that have a box, such as ball and
paddle, are drawn again on top of it and outlined, so that it never hides what it should point at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import cv2
import imageio.v2 as imageio
import numpy as np
from PIL import Image, ImageDraw

from reprl.analysis.attention.heat import EVEN, FULL, heat
from reprl.analysis.attention.lettering import LINE, font, wrapped
from reprl.analysis.attention.record import Recording
from reprl.analysis.attention.scores import chance, energy
from reprl.analysis.attention.views import even_maps, pixel_maps
from reprl.disk import replacing
from reprl.envs.machine import FPS
from reprl.envs.objects import DISTRACTOR, Box, Objects
from reprl.envs.observation import newest_frame

ZOOM = 2
INK, PAPER, QUIET = (235, 235, 235), (24, 24, 27), (160, 160, 168)
# of a game's boxes in turn
OUTLINES = (
    ("white", (255, 255, 255)),
    ("blue", (64, 224, 255)),
    ("green", (96, 255, 128)),
    ("yellow", (255, 224, 64)),
    ("pink", (255, 128, 224)),
)
EDGE, GAP = 16, 8
MARGIN = 190  # of what is said of a moment


@dataclass(frozen=True)
class DrawnLook:
    """One look, ready to be drawn: panels of 210 x 160 at `ZOOM`, and the text below them."""

    titles: tuple[str, ...]
    panels: tuple[np.ndarray, ...]  # (420, 320, 3) each
    caption: tuple[str, ...]


def panel(picture: np.ndarray, frame: np.ndarray | None, objects: Objects | None) -> np.ndarray:
    """A picture (210, 160, 3) enlarged, its boxes restored from `frame` and outlined."""
    picture = picture.copy()
    boxes = {} if objects is None else objects.boxes
    for box in boxes.values():
        if box is not None and frame is not None:
            # A console may paint an object one line higher than it is.
            place = Box(box.x, box.y - 1, box.w, box.h + 1).slices(frame.shape[:2])
            picture[place] = frame[place]
    large = cv2.resize(picture, None, fx=ZOOM, fy=ZOOM, interpolation=cv2.INTER_NEAREST)
    for box, (_, colour) in zip(boxes.values(), cycle(OUTLINES), strict=False):
        if box is not None:
            _outline(large, box, colour)
    return large


def _outline(picture: np.ndarray, box: Box, colour: tuple[int, int, int]) -> None:
    x, y, w, h = (round(v * ZOOM) for v in (box.x, box.y, box.w, box.h))
    far = 4  # pixels between the object and its outline
    corner, other = (x - far, y - far), (x + w + far - 1, y + h + far - 1)
    cv2.rectangle(picture, corner, other, (0, 0, 0), 3)  # a dark rim, to stand out on any heat
    cv2.rectangle(picture, corner, other, colour, 1)


def moments(recording: Recording, which: np.ndarray) -> Iterator[DrawnLook]:
    """Some of the filmed looks (indices into `recording.film`) as pictures with captions."""
    view = recording.view
    looks = recording.film[which]
    raw = recording.frames.shape[1:3]
    maps = pixel_maps(view, recording.cells[looks], raw)  # (m, 210, 160) in Breakout
    clean = recording.clean_cells
    clean_maps = None if clean is None else pixel_maps(view, clean[which], raw)
    maps = maps / even_maps(view, recording.cells[looks], raw)
    if clean is not None and clean_maps is not None:
        clean_maps = clean_maps / even_maps(view, clean[which], raw)
    left = view.visibility(recording.cells[looks].to(view.network.device))[:, 0].cpu().numpy()
    for i, (m, index) in enumerate(zip(which, looks, strict=True)):
        objects = recording.objects[index] if recording.objects is not None else None
        frame = recording.frames[m]
        seen = newest_frame(recording.observations[index], recording.channels) * left[i]
        masked = cv2.resize(seen, raw[::-1], interpolation=cv2.INTER_LINEAR)
        masked = np.repeat(masked.astype(np.uint8)[..., None], 3, axis=2)
        pictures = []
        if recording.clean_frames is not None and clean_maps is not None:
            twin = recording.clean_frames[m]
            pictures += [
                ("the clean game", panel(twin, None, objects)),
                (f"{view.words} on it", panel(heat(twin, clean_maps[i]), twin, objects)),
            ]
        pictures += [
            (recording.variant, panel(frame, None, objects)),
            (f"{view.words} on {recording.variant}", panel(heat(frame, maps[i]), frame, objects)),
            ("what it leaves", panel(masked, None, objects)),
        ]
        caption = _caption(recording, m, index)
        yield DrawnLook(tuple(t for t, _ in pictures), tuple(p for _, p in pictures), caption)


def _caption(recording: Recording, m: int, index: int) -> tuple[str, ...]:
    clock = f"step {m * recording.view.every}, {recording.scores[m]:g} points"
    if recording.objects is None:
        return (clock,)
    maps = pixel_maps(recording.view, recording.cells[index : index + 1], _size(recording))
    uniform = recording.uniform()
    objects = recording.objects[index]
    masks = objects.masks(_size(recording))
    words = []
    for name in (*objects.boxes, DISTRACTOR):
        mask = masks[name][None]
        if mask.any():
            by_chance = chance("energy", mask, uniform=uniform)
            times = float(energy(maps, mask, uniform)[0] / by_chance[0])
            words.append(f"{name} {times:.1f}x")
    return clock, " · ".join(words)


def _size(recording: Recording) -> tuple[int, int]:
    return recording.view.network.shape[1:]


def spread(recording: Recording, count: int = 6) -> np.ndarray:
    """Moments spread evenly over the film, moved to where the tracked object is on the screen."""
    total = len(recording.film)
    wanted = np.unique(np.linspace(0, total - 1, count + 2).round().astype(int)[1:-1])
    tracked = recording.game.tracked
    if recording.objects is None or tracked is None or total < 2:
        return wanted if len(wanted) else np.arange(total)
    seen = np.array([recording.objects[i].boxes[tracked] is not None for i in recording.film])
    if not seen.any():
        return wanted
    usable = np.nonzero(seen)[0]
    return np.unique([usable[np.abs(usable - w).argmin()] for w in wanted])


def contact_sheet(recording: Recording, title: str, count: int = 4) -> np.ndarray:
    """Moments as rows, each frame beside its map: one RGB picture."""
    chosen = list(moments(recording, spread(recording, count)))
    height, width = chosen[0].panels[0].shape[:2]
    wide = EDGE * 2 + MARGIN + len(chosen[0].panels) * (width + GAP)
    room = wide - 2 * EDGE
    head, legend = wrapped(title, room, 20), wrapped(legend_of(recording), room, 14)
    names = [wrapped(name, width, 16) for name in chosen[0].titles]
    top = EDGE + len(head) * 25 + 10
    first = top + LINE * max(map(len, names)) + 8
    captions = [[wrapped(text, MARGIN - GAP, 15) for text in one.caption] for one in chosen]
    rows = [max(height, LINE * sum(map(len, lines))) + GAP for lines in captions]
    below = first + sum(rows) + 4
    sheet = Image.new("RGB", (wide, below + len(legend) * LINE + EDGE), PAPER)
    pen = ImageDraw.Draw(sheet)
    _write(pen, (EDGE, EDGE), head, INK, 20, 25)
    for c, lines in enumerate(names):
        _write(pen, (EDGE + MARGIN + c * (width + GAP), top), lines, INK, 16)
    y = first
    for moment, texts, tall in zip(chosen, captions, rows, strict=True):
        at = y
        for k, lines in enumerate(texts):
            at = _write(pen, (EDGE, at), lines, INK if k == 0 else QUIET, 15)
        for c, picture in enumerate(moment.panels):
            sheet.paste(Image.fromarray(picture), (EDGE + MARGIN + c * (width + GAP), y))
        y += tall
    _write(pen, (EDGE, below), legend, QUIET, 14)
    return np.asarray(sheet)


def _write(
    pen: ImageDraw.ImageDraw,
    place: tuple[int, int],
    lines: list[str],
    colour: tuple[int, int, int],
    size: int,
    step: int = LINE,
) -> int:
    """Write lines below each other; the height at which the next would begin."""
    for k, line in enumerate(lines):
        pen.text((place[0], place[1] + k * step), line, colour, font(size))
    return place[1] + len(lines) * step


def legend_of(recording: Recording) -> str:
    """What the boxes and the numbers below the pictures mean."""
    words = [f"heat begins at {EVEN:g}x and is full at {FULL:g}x"]
    if recording.objects is not None:
        boxes = zip(recording.objects[0].boxes, cycle(OUTLINES), strict=False)
        shown = ", ".join(f"{colour} box: {name}" for name, (colour, _) in boxes)
        words.insert(0, "1x = what a mask that is the same everywhere puts there")
        words = [shown, *words] if shown else words
    return "; ".join(words)


def strip(moment: DrawnLook) -> np.ndarray:
    """One moment with its panels side by side: a frame of the video, sides even."""
    height, width = moment.panels[0].shape[:2]
    titles = [wrapped(title, width, 15) for title in moment.titles]
    head, foot = LINE * max(map(len, titles)) + 12, LINE * len(moment.caption) + 12
    size = (len(titles) * (width + GAP) + GAP, height + head + foot)
    sheet = Image.new("RGB", (size[0] + size[0] % 2, size[1] + size[1] % 2), PAPER)
    pen = ImageDraw.Draw(sheet)
    for c, (lines, picture) in enumerate(zip(titles, moment.panels, strict=True)):
        x = GAP + c * (width + GAP)
        _write(pen, (x, 6), lines, INK, 15)
        sheet.paste(Image.fromarray(picture), (x, head))
    for k, text in enumerate(moment.caption):
        pen.text((GAP, head + height + 6 + k * LINE), text, INK if k == 0 else QUIET, font(15))
    return np.asarray(sheet)


def write_video(recording: Recording, path: Path, longest: int = 450) -> None:
    """The first environment's play as an mp4, at most `longest` looks (half a minute)."""
    which = np.arange(min(len(recording.film), longest))
    with replacing(path) as draft:
        _film(recording, which, draft)


def _film(recording: Recording, which: np.ndarray, draft: Path) -> None:
    video: Any = imageio.get_writer(
        draft,
        fps=FPS,
        codec="libx264",
        quality=7,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-preset", "veryfast"],
    )
    with video:
        for moment in moments(recording, which):
            video.append_data(strip(moment))


def write_picture(picture: np.ndarray, path: Path) -> None:
    """Save an RGB picture as PNG."""
    with replacing(path) as draft:
        Image.fromarray(picture).save(draft, optimize=True)
