"""Attention pictures inside the page: embedded as data, small enough to mail."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from PIL import Image

from reprl import guard
from reprl.analysis.load import Run
from reprl.errors import UserError

BUDGET = (
    2_200_000  # bytes of base64 for all pictures: with the explorer's the page stays below 5 MB
)
AS_IS = 150_000  # a PNG up to this size is embedded unchanged
WIDEST = 1200


@dataclass(frozen=True)
class EmbeddedPicture:
    """One embedded picture and its caption."""

    run: str
    method: str
    seed: int
    variant: str
    state: str
    source: str
    video: str = ""  # where it lies, seen from the page
    light: bool = False  # drawn for white paper
    first: bool = True  # of the first run of its method: shown unfolded


def pictures(
    runs: list[Run], warnings: list[str], page: Path, order: Sequence[str] = ()
) -> list[EmbeddedPicture]:
    """Every attention picture that can be read, until the budget is spent.

    Methods come in the order given, first one run of each: the others are folded away.
    Videos stay in their run folders; the page, in the folder `page`, has links to them.
    """
    found: list[EmbeddedPicture] = []
    spent, left_out = 0, 0
    with_pictures = [run for run in runs if run.images or run.trends]
    firsts = {run.method: run.name for run in reversed(with_pictures)}
    place = {method: i for i, method in enumerate(order)}
    ordered = sorted(
        with_pictures,
        key=lambda run: (firsts[run.method] != run.name, place.get(run.method, len(place))),
    )
    for run in ordered:
        shown = [(variant, path, False) for variant, path in run.images.items()]
        shown += [(variant, path, True) for variant, path in run.trends.items()]
        for variant, path, is_trend in shown:
            source = drawing(path) if is_trend else embed(path, run.name, warnings)
            if source is None:
                continue
            if spent + len(source) > BUDGET:
                left_out += 1
                continue
            spent += len(source)
            who = (run.name, run.method, run.seed, variant)
            first = firsts[run.method] == run.name and not is_trend
            if is_trend:
                found.append(
                    EmbeddedPicture(*who, "over training", source, light=True, first=False)
                )
            else:
                video = link(run.videos.get(variant), page)
                state = _state(run, variant)
                found.append(EmbeddedPicture(*who, state, source, video, first=first))
    if left_out:
        warnings.append(f"{left_out} attention pictures were left out to keep the page small.")
    return found


def _state(run: Run, variant: str) -> str:
    healthy = "healthy" if variant in run.labels else ""
    return ", ".join(run.labels.get(variant, [])) or healthy


def link(path: Path | None, page: Path) -> str:
    """A relative address of a file that is there, else nothing."""
    if path is None or not path.is_file():
        return ""
    return quote(Path(os.path.relpath(path.resolve(), page.resolve())).as_posix())


def drawing(path: Path) -> str | None:
    """An SVG as a data URI: inside an <img> it can neither run code nor load anything."""
    try:
        raw = guard.read_bytes(path)
    except (OSError, UserError):
        return None
    return f"data:image/svg+xml;base64,{base64.b64encode(raw).decode()}"


def embed(path: Path, name: str, warnings: list[str]) -> str | None:
    """A picture as a data URI, reduced if it is large; None with a warning if it is none."""
    try:
        raw = guard.read_bytes(path, guard.LARGEST[".png"])
        # by name: PIL would hand PostScript to an interpreter, whatever the file is called
        with Image.open(io.BytesIO(raw), formats=["PNG", "JPEG"]) as image:
            if image.size[0] * image.size[1] > guard.MOST_PIXELS:
                raise ValueError("it is too large")
            image.load()
            if image.format == "PNG" and len(raw) <= AS_IS:
                return f"data:image/png;base64,{base64.b64encode(raw).decode()}"
            small = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        warnings.append(f"{name}: {path.name} is no readable picture.")
        return None
    small.thumbnail((WIDEST, 4 * WIDEST))
    out = io.BytesIO()
    small.save(out, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
