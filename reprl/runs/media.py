"""What a logger can show besides numbers: pictures, films, histograms, tables, files.

validation or a command -> **media** -> TensorBoard and wandb. Plain data, so that whoever makes
them knows neither logger.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

COLOURS = 64  # of a GIF: games have few


@dataclass(frozen=True)
class LoggedPicture:
    pixels: np.ndarray  # (H, W, 3) uint8


@dataclass(frozen=True)
class LoggedFilm:
    frames: np.ndarray  # (T, H, W, 3) uint8
    fps: float


@dataclass(frozen=True)
class LoggedHistogram:
    values: np.ndarray  # (N,)


@dataclass(frozen=True)
class LoggedTable:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class LoggedFiles:
    """A folder, of which the files with these endings are kept."""

    folder: Path
    kind: str
    suffixes: tuple[str, ...]

    def files(self) -> list[Path]:
        found = sorted(self.folder.rglob("*"))
        return [
            f for f in found if f.suffix in self.suffixes and f.is_file() and not f.is_symlink()
        ]


Medium = LoggedPicture | LoggedFilm | LoggedHistogram | LoggedTable | LoggedFiles


class MediaSink(Protocol):
    """A logger that shows more than numbers."""

    def show(self, step: int, media: dict[str, Medium]) -> None:
        """Take what it can show; must not raise for reasons outside this process."""


def gif(frames: np.ndarray, fps: float) -> bytes:
    """Frames (T, H, W, 3) as an animated GIF that repeats."""
    from PIL import Image

    pictures = [Image.fromarray(f).quantize(COLOURS, dither=Image.Dither.NONE) for f in frames]
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=max(20, round(1000 / fps)),  # browsers slow faster ones down
        loop=0,
    )
    return file.getvalue()
