"""Which runs belong together: one game, and one name for each set of settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from reprl.config.overrides import flatten
from reprl.envs.defaults import DEFAULT_GAME
from reprl.naming import completed

if TYPE_CHECKING:
    from reprl.analysis.load import Run

# Settings that change where or how a run is executed, or which seed it had, but not the method.
NOT_THE_METHOD = (
    "seed",
    "choices",
    "mode",
    "log",
    "run_dir",
    "threads",
    "device",
    "wandb",
    "progress",
    "media",
    "profile",
    "experiment",
    "sweep",
    "parent",
    "checkpoint",
    "eval",
    "hydra",
    "env.workers",
)
FEW = 4  # settings that are all shown in a name


def method_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flattened settings that define the method, without seeds, folders and loggers."""
    return {
        key: value
        for key, value in flatten({part: completed(part, v) for part, v in config.items()}).items()
        if not any(key == skip or key.startswith(skip + ".") for skip in NOT_THE_METHOD)
    }


def distinguish(runs: list[Run], warnings: list[str]) -> None:
    """Runs of one method name with different settings get those settings into their names."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.method, []).append(run)
    for method, members in groups.items():
        settings = [method_settings(r.config) for r in members]
        keys = sorted(set().union(*settings))
        differing = [
            k for k in keys if len({json.dumps(s.get(k), default=str) for s in settings}) > 1
        ]
        if differing == ["total_steps"] and len({r.seed for r in members}) == len(members):
            warnings.append(f"{method}: its runs were trained for different numbers of steps.")
            continue  # each is a seed of its own; of one seed they are different methods
        named = _enough(differing, settings)
        for run, values in zip(members, settings, strict=True):
            extra = ", ".join(f"{k.removeprefix('algo.')}={values.get(k)}" for k in named)
            run.method += f" · {extra}" if extra else ""
        seeds = [(r.method, r.seed) for r in members]
        for name, seed in sorted({s for s in seeds if seeds.count(s) > 1}):
            warnings.append(f"{name}: several runs have seed {seed}; they count as one seed.")


def _enough(keys: list[str], settings: list[dict[str, Any]]) -> list[str]:
    """Keys that tell all settings apart: every one where they are few, else no more than needed."""
    if len(keys) <= FEW:
        return keys
    chosen: list[str] = []
    groups = 1
    for key in keys:
        tried = [*chosen, key]
        found = len({json.dumps([s.get(k) for k in tried], default=str) for s in settings})
        if found > groups:
            chosen, groups = tried, found
    return chosen


def of_one_game(
    runs: list[Run], tables: dict[str, list[pd.DataFrame]], warnings: list[str]
) -> list[Run]:
    """The runs of the game most of them are evaluated on: points of games have no common scale.

    Where none is evaluated, or equally many are, the game that most of them play is reported.
    Tables know the folder they were read from, `attrs["folder"]`, and the game of a model without a
    run, `attrs["game"]`; other games' tables are dropped.
    """
    frames = tables.get("episodes", [])
    loose = _loose(runs, frames)
    games = [*(run.game for run in runs), *loose]
    if len(set(games)) < 2:
        return runs
    played = {Path(frame.attrs["folder"]).resolve() for frame in frames}
    evaluated = [*(run.game for run in runs if run.path.resolve() in played), *loose]
    chosen = max(dict.fromkeys(games), key=lambda game: (evaluated.count(game), games.count(game)))
    others = ", ".join(sorted(set(games) - {chosen}))
    warnings.append(
        f"these runs play different games: only those of {chosen} are reported in full; give the "
        f"folders of {others} to a report of their own."
    )
    for kind, frames in tables.items():
        tables[kind] = []
        for frame in frames:
            own = frame.attrs.get("game")
            around = {own} if own else _games_at(frame.attrs["folder"], runs)
            if around <= {chosen}:
                tables[kind].append(frame)
            elif len(around) > 1:
                warnings.append(
                    f"{frame.attrs['folder']}: runs of different games are around it, so nobody "
                    "can say whose these players are: left out (keep each game in its own folder)."
                )
    return [run for run in runs if run.game == chosen]


def reported_game(runs: list[Run], episodes: list[pd.DataFrame]) -> str:
    """The game of what `of_one_game` has left."""
    return next(iter([*(run.game for run in runs), *_loose(runs, episodes)]), DEFAULT_GAME)


def _loose(runs: list[Run], episodes: list[pd.DataFrame]) -> list[str]:
    """The games of models that have no run, one entry for each table of them."""
    homes = {run.path.resolve() for run in runs}
    return [
        frame.attrs["game"]
        for frame in episodes
        if frame.attrs.get("game") and Path(frame.attrs["folder"]).resolve() not in homes
    ]


def _games_at(folder: Path, runs: list[Run]) -> set[str]:
    """The game of the run in a folder, or of those beside it."""
    for home in (folder.resolve(), folder.resolve().parent):
        games = {r.game for r in runs if r.path.resolve().is_relative_to(home)}
        if games:
            return games
    return set()
