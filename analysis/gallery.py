"""Attention pictures inside the page: embedded as data, small enough to mail."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from reprl.analysis.results import Run

BUDGET = 9_000_000  # bytes of base64 for all pictures, so that the page stays below 15 MB
AS_IS = 150_000  # a PNG up to this size is embedded unchanged
WIDEST = 1200


@dataclass(frozen=True)
class Picture:
    """One embedded picture and its caption."""

    run: str
    method: str
    seed: int
    variant: str
    state: str
    source: str


def pictures(runs: list[Run], warnings: list[str]) -> list[Picture]:
    """Every attention picture that can be read, until the budget is spent."""
    found: list[Picture] = []
    spent, left_out = 0, 0
    for run in runs:
        for variant, path in run.images.items():
            source = embed(path, run.name, warnings)
            if source is None:
                continue
            if spent + len(source) > BUDGET:
                left_out += 1
                continue
            spent += len(source)
            state = ", ".join(run.labels.get(variant, [])) or (
                "healthy" if variant in run.labels else ""
            )
            found.append(Picture(run.name, run.method, run.seed, variant, state, source))
    if left_out:
        warnings.append(f"{left_out} attention pictures were left out to keep the page small.")
    return found


def embed(path: Path, name: str, warnings: list[str]) -> str | None:
    """A picture as a data URI, reduced if it is large; None with a warning if it is none."""
    try:
        raw = path.read_bytes()
        with Image.open(io.BytesIO(raw)) as image:
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
