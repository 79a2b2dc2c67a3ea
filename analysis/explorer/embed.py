"""Films inside the page: one run of each method, until the page would grow too large.

evaluation/film/ of the runs -> **embedded films** -> explorer.js. A film that is damaged is a note
of the report, and the others are shown.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from reprl import guard
from reprl.analysis.attention.heat import COOL, EVEN, FULL, HOT, LEVELS, STRENGTH
from reprl.analysis.coverage import main_variants
from reprl.analysis.gap import Played
from reprl.analysis.load import Results, Run
from reprl.settings import STEPS

FOLDER, ABOUT = "evaluation/film", "film.json"
BUDGET = 2_300_000  # bytes of base64 for all films
# Places an object is believed to be at, by a probe: {"object": name, "pictures": [[[x, y], ...]]}
BELIEF = "belief"


def embedded_films(
    results: Results, order: Sequence[str], table: Played | None = None
) -> dict[str, Any] | None:
    """What explorer.js reads, or None where no run has a film."""
    films: list[dict[str, Any]] = []
    spent, left_out = 0, 0
    for method in order:
        for run in _typical(method, results.runs, table):
            film = _film(run, results.warnings)
            if film is None:
                continue
            size = len(json.dumps(film))
            if spent + size > BUDGET:
                left_out += 1
            else:
                spent += size
                films.append(film)
            break
    if left_out:
        results.warnings.append(f"{left_out} recorded games were left out to keep the page small.")
    if not films:
        return None
    heat = {"even": EVEN, "full": FULL, "strength": STRENGTH, "cool": COOL, "hot": HOT}
    return {"films": films, "heat": heat, "levels": LEVELS}


def _typical(method: str, runs: Sequence[Run], table: Played | None) -> list[Run]:
    """Runs of a method that have a film, the one of the middle score on the variants first."""
    own = [r for r in runs if r.method == method and (r.path / FOLDER / ABOUT).is_file()]
    variants = main_variants(table.scores) if table is not None else []
    if table is None or method not in table.methods() or not variants:
        return own
    own_scores = table.scores.loc[[method]].droplevel("method")
    scores = own_scores[variants].mean(axis=1)
    middle = float(scores.median())
    return sorted(own, key=lambda r: abs(float(scores.get(r.seed, np.inf)) - middle))


def _film(run: Run, warnings: list[str]) -> dict[str, Any] | None:
    place = run.path / FOLDER
    try:
        return _read(run, place)
    except Exception as error:  # whatever a stranger wrote into it, the other films are shown
        said = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        warnings.append(f"{run.name}: its recorded game cannot be shown ({said}).")
        return None


def _read(run: Run, place: Path) -> dict[str, Any]:
    about = json.loads(guard.read_text(place / ABOUT))
    if about["version"] != 1:
        raise ValueError(f"it has version {about['version']}")
    steps = len(about["chosen"])
    STEPS.checked("steps of the film", steps)
    height, width = (int(v) for v in about["size"])
    columns = int(about["columns"])
    actions = [str(a) for a in about["actions"]]
    grid = None if about["grid"] is None else [int(v) for v in about["grid"]]
    pictures = []
    for one in about["pictures"]:
        shown: dict[str, Any] = {"variant": str(one["variant"])}
        shown["frames"] = sprite_uri(place, one["frames"], steps, columns, (height, width))
        if grid is not None and one.get("masks"):
            shown["masks"] = sprite_uri(place, one["masks"], steps, columns, (grid[0], grid[1]))
        shown["probs"] = _numbers(one["probs"], (steps, len(actions)))
        shown["values"] = _numbers(one["values"], (steps,))
        shown["change"] = _numbers(one["change"], (steps,))
        pictures.append(shown)
    if not pictures:
        raise ValueError("it has no pictures")
    film = {
        "method": run.method,
        "run": run.name,
        "seed": run.seed,
        "step": int(about["step"]),
        "size": [height, width],
        "grid": grid,
        "columns": columns,
        "view": str(about["view"]),
        "actions": actions,
        "chosen": [int(v) for v in _numbers(about["chosen"], (steps,))],
        "scores": _numbers(about["scores"], (steps,)),
        "games": _numbers(about["games"], (steps,)),
        "tracked": str(about.get("tracked") or ""),
        "truth": _places(about.get("truth") or [], steps),
        "pictures": pictures,
    }
    belief = about.get(BELIEF)
    if belief:
        film[BELIEF] = {
            "object": str(belief["object"]),
            "pictures": [_places(places, steps) for places in belief["pictures"]],
        }
    return film


def _numbers(values: Any, shape: tuple[int, ...]) -> list[Any]:
    found = np.array(values, float)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"numbers of shape {found.shape} instead of {shape}")
    return list(found.tolist())


def _places(values: Any, steps: int) -> list[list[float] | None]:
    if not values:
        return []
    if len(values) != steps:
        raise ValueError(f"{len(values)} places for {steps} steps")
    return [None if v is None else _numbers(v, (2,)) for v in values]


def sprite_uri(place: Path, name: Any, steps: int, columns: int, tile: tuple[int, int]) -> str:
    """A sprite as a data URI, once it is known to be a WebP of the size its tiles need."""
    if Path(str(name)).name != name:
        raise ValueError(f"{name} is no file of the film")
    raw = guard.read_bytes(place / name, guard.LARGEST[".png"])
    with Image.open(io.BytesIO(raw), formats=["WEBP"]) as image:
        rows = -(-steps // columns)
        if image.size != (columns * tile[1], rows * tile[0]):
            raise ValueError(f"{name} has {image.size} pixels")
        if image.size[0] * image.size[1] > guard.MOST_PIXELS:
            raise ValueError(f"{name} is too large")
        image.load()
    return f"data:image/webp;base64,{base64.b64encode(raw).decode()}"
