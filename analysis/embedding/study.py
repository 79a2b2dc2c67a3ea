"""The map of one agent's features: recorded states, projected, with neighbours and their frames.

moments in every view -> features -> **points, values, neighbours, frames** ->
`evaluation/embedding/` of the run -> the report's map.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reprl.analysis.embedding.projection import METHODS, nearest, projected
from reprl.analysis.explorer.record import COLUMNS, sprite
from reprl.analysis.probe.record import PLAYERS, Moments
from reprl.analysis.probe.subject import subject
from reprl.disk import write_atomically
from reprl.envs.defaults import CLEAN
from reprl.envs.games import game as game_of
from reprl.envs.observation import newest_frame
from reprl.envs.protocol import VariantSpec
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.twin import comparable
from reprl.evaluation.variants import expand, label
from reprl.settings import TWINS
from reprl.validation import checker, choice

FOLDER, ABOUT = "evaluation/embedding", "embedding.json"


@dataclass
class Embedding:
    """n states in V views as points; the first view is the clean one."""

    about: dict[str, Any]
    views: list[str]  # (V,)
    points: np.ndarray  # (V, n, 2)
    explained: np.ndarray  # (2,) shares of the variance along the axes, NaN but for PCA
    values: np.ndarray  # (V, n) of the value head
    tracked: str  # the object whose place is known
    places: np.ndarray  # (n, 2) its middle in pixels of the agent's picture, NaN out of view
    games: np.ndarray  # (n,)
    neighbours: np.ndarray  # (V, n, k): clean states of other games nearest in feature space
    kept: np.ndarray  # (V,) share of states whose nearest clean state is their own twin
    frames: np.ndarray  # (V, n, H, W) uint8, the newest frame that the agent sees
    problems: list[str]
    seconds: float = 0.0


def embed(
    agent: Any,
    variants: VariantSpec | Iterable[VariantSpec] = CLEAN,
    *,
    method: str = "pca",
    frames: int = 200,
    games: int = 8,
    every: int = 8,
    seed: int = 0,
    player: str = "agent",
    neighbours: int = 5,
    perplexity: float = 30.0,
    labels: dict[str, Any] | None = None,
    **settings: Any,
) -> Embedding:
    """Project the features that the heads read, of all views together."""
    began = time.perf_counter()
    check = checker(TWINS)
    frames, games, every = check("frames", frames), check("games", games), check("every", every)
    seed, neighbours = check("seed", seed), check("neighbours", neighbours)
    perplexity = float(check("perplexity", perplexity))
    choice("method", method, METHODS)
    choice("player", player, PLAYERS)
    who = subject(agent, labels, settings, "an embedding", numbers=True)
    chosen, problems = comparable(expand(variants, (), who.game))
    moments = who.moments(
        chosen, frames=frames, games=range(games), every=every, seed=seed, player=player
    )
    views = [CLEAN, *map(label, chosen)]
    everything = np.arange(len(moments.games))
    said = [who.watcher.read(*moments.rows(view, everything)) for view in views]
    features = np.stack([features for _, features in said])  # (V, n, F)
    flat = features.reshape(-1, features.shape[-1])
    points, explained = projected(flat, method, seed=seed, perplexity=perplexity)
    same = moments.games[:, None] == moments.games
    twins = np.stack([nearest(f, features[0], 1, np.zeros_like(same))[:, 0] for f in features])
    tracked = game_of(who.game).tracked or ""
    about = who.about | {"player": player, "eval_seed": seed, "method_of_view": method}
    return Embedding(
        about=about,
        views=views,
        points=points.reshape(len(views), -1, 2),
        explained=explained,
        values=np.stack([values for values, _ in said]),
        tracked=tracked,
        places=_places(moments, tracked),
        games=moments.games,
        neighbours=np.stack([nearest(f, features[0], neighbours, same) for f in features]),
        kept=(twins == everything).mean(axis=1),
        frames=np.stack(
            [newest_frame(moments.observations[view], moments.channels) for view in views]
        ),
        problems=problems,
        seconds=time.perf_counter() - began,
    )


def _places(moments: Moments, tracked: str) -> np.ndarray:
    size = moments.observations[CLEAN].shape[2:]
    found = np.full((len(moments.objects), 2), np.nan)
    for i, objects in enumerate(moments.objects):
        box = objects.boxes.get(tracked)
        if box is not None:
            found[i] = box.scaled((size[0], size[1]), objects.shape).center
    return found


def write(target: Measured, found: Embedding) -> Path:
    """embedding.json and a sprite of frames for each view, in place of an earlier one."""
    place = target.place / FOLDER
    draft = place.with_name(place.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    views = []
    for i, name in enumerate(found.views):
        file = f"{i}_frames.webp"
        (draft / file).write_bytes(sprite(found.frames[i]))
        views.append(
            {
                "variant": name,
                "frames": file,
                "points": np.round(found.points[i], 4).tolist(),
                "values": np.round(found.values[i].astype(float), 4).tolist(),
                "neighbours": found.neighbours[i].tolist(),
                "kept": round(float(found.kept[i]), 4),
            }
        )
    known = ~np.isnan(found.places[:, 0])
    about = {
        "version": 1,
        "about": {k: v if isinstance(v, str) else int(v) for k, v in found.about.items()},
        "size": list(found.frames.shape[2:]),
        "columns": COLUMNS,
        "explained": [None if np.isnan(v) else round(float(v), 4) for v in found.explained],
        "tracked": found.tracked,
        "places": [
            np.round(p, 2).tolist() if there else None
            for p, there in zip(found.places, known, strict=True)
        ],
        "games": found.games.tolist(),
        "views": views,
    }
    write_atomically(draft / ABOUT, json.dumps(about, separators=(",", ":")) + "\n")
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
    return place
