"""Maps of features inside the page: one run of each method, until the page would grow too large.

evaluation/embedding/ of the runs -> **embedded maps** -> embedding.js. A damaged one is a note of
the report, and the others are shown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reprl import guard
from reprl.analysis.explorer.embed import sprite_uri
from reprl.analysis.load import Results, Run
from reprl.errors import UserError
from reprl.settings import TWINS

FOLDER, ABOUT = "evaluation/embedding", "embedding.json"
BUDGET = 1_500_000  # bytes of base64 for all maps


def embedded_maps(results: Results, order: Sequence[str]) -> list[dict[str, Any]]:
    """What embedding.js reads, in the order of methods."""
    maps: list[dict[str, Any]] = []
    spent = left_out = 0
    for method in order:
        for run in (r for r in results.runs if r.method == method):
            if not (run.path / FOLDER / ABOUT).is_file():
                continue
            found = _map(run, results.warnings)
            if found is None:
                continue
            size = len(json.dumps(found))
            if spent + size > BUDGET:
                left_out += 1
            else:
                spent += size
                maps.append(found)
            break
    if left_out:
        results.warnings.append(
            f"{left_out} maps of features were left out to keep the page small."
        )
    return maps


def _map(run: Run, warnings: list[str]) -> dict[str, Any] | None:
    try:
        return _read(run, run.path / FOLDER)
    except (OSError, UserError, ValueError, KeyError, TypeError, IndexError) as error:
        said = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        warnings.append(f"{run.name}: its map of features cannot be shown ({said}).")
        return None


def _read(run: Run, place: Path) -> dict[str, Any]:
    about = json.loads(guard.read_text(place / ABOUT))
    if about["version"] != 1:
        raise ValueError(f"it has version {about['version']}")
    count = len(about["games"])
    TWINS["frames"].checked("states of the map", count)
    height, width = (int(v) for v in about["size"])
    columns = int(about["columns"])
    views = []
    for one in about["views"]:
        neighbours = _whole(one["neighbours"], count)
        views.append(
            {
                "variant": str(one["variant"]),
                "points": _numbers(one["points"], (count, 2)),
                "values": _numbers(one["values"], (count,)),
                "neighbours": neighbours,
                "kept": float(one["kept"]),
                "frames": sprite_uri(place, one["frames"], count, columns, (height, width)),
            }
        )
    if not views:
        raise ValueError("it has no views")
    places = [None if p is None else _numbers(p, (2,)) for p in about["places"]]
    if len(places) != count:
        raise ValueError(f"{len(places)} places for {count} states")
    return {
        "method": run.method,
        "run": run.name,
        "seed": run.seed,
        "step": int(about["about"]["step"]),
        "projection": str(about["about"]["method_of_view"]),
        "explained": [None if v is None else float(v) for v in about["explained"]],
        "size": [height, width],
        "columns": columns,
        "tracked": str(about["tracked"]),
        "places": places,
        "games": [int(v) for v in _numbers(about["games"], (count,))],
        "views": views,
    }


def _numbers(values: Any, shape: tuple[int, ...]) -> list[Any]:
    found = np.array(values, float)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"numbers of shape {found.shape} instead of {shape}")
    return list(found.tolist())


def _whole(values: Any, count: int) -> list[list[int]]:
    """Rows of numbers of states, all of which are there."""
    found = np.array(values, float)
    if found.ndim != 2 or len(found) != count or not ((found >= 0) & (found < count)).all():
        raise ValueError("neighbours that are no states of it")
    return [[int(v) for v in row] for row in found]
