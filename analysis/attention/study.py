"""A study of one agent's attention on one variant, and its files in the run folder.

`attention/<variant>.png`, `<variant>.mp4`, `scores.csv`, `labels.json` and, where there is more
than one checkpoint or a test was asked for, `<variant>_over_training.svg` and `faithfulness.csv`;
the report reads them. What was studied before stays in the tables; the same checkpoint, variant,
view and player studied again is replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from reprl import guard
from reprl.algorithms.diagnostics import MaskMonitor, inspect, mask_entropy, mask_mean
from reprl.analysis.attention.faithfulness import (
    curve_table,
    masked_returns,
    policy_curves,
    sanity_check,
    typical_picture,
)
from reprl.analysis.attention.lag import object_lag
from reprl.analysis.attention.pictures import contact_sheet, write_picture, write_video
from reprl.analysis.attention.record import Behaviour, Recording, collect
from reprl.analysis.attention.scores import TOLERANCE, attention_scores, relative
from reprl.analysis.attention.trend import write_trend
from reprl.analysis.attention.views import Attribution, MaskView
from reprl.disk import write_atomically
from reprl.encoders.hard import gate_of
from reprl.envs.protocol import VariantSpec
from reprl.naming import file_name
from reprl.schema import CLEAN, FAITHFULNESS, SCORES, TableSchema
from reprl.tables import Unreadable, locked, merge

FAITHFUL_LOOKS = 96  # pictures that deletion and insertion are measured on
SANITY_LOOKS = 24
SMALLEST_CONTRAST = 0.1  # between a mask's brightest and darkest cell


@dataclass
class Study:
    """What was found on one variant; `scores` is None for a game without ground truth."""

    recording: Recording
    scores: pd.DataFrame | None
    labels: list[str] | None  # collapse of a mask, None where the map is not a mask
    numbers: dict[str, float] = field(default_factory=dict)
    faithfulness: pd.DataFrame | None = None

    @property
    def variant(self) -> str:
        return self.recording.variant


def study(
    view: Attribution,
    variant: VariantSpec = CLEAN,
    *,
    steps: int = 1000,
    seed: int = 0,
    n_envs: int = 8,
    player: Behaviour | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Study:
    """Play, look and score."""
    recording = collect(
        view,
        variant,
        steps=steps,
        seed=seed,
        n_envs=n_envs,
        player=player,
        settings=settings,
    )
    labels, numbers = None, {}
    if isinstance(view, MaskView):
        # The whole recording in one look: a peak that never moved over several games is stuck.
        some = recording.observations[:: max(1, len(recording.observations) // 256)]
        _, raw = inspect(view.encoder, view.network.images(some))
        labels = mask_labels(recording.cells, raw, gate_of(view.encoder, recording.cells))
        numbers = {"mean": mask_mean(recording.cells), "entropy": mask_entropy(recording.cells)}
    scores = None if recording.objects is None else _scores(recording)
    return Study(recording, scores, labels, numbers)


def mask_labels(cells: Tensor, raw: Tensor | None = None, gate: Tensor | None = None) -> list[str]:
    """Collapse labels of a whole recording (N, 1, h, w); flat: nothing stands out, all is gray.

    `raw` (M, 1, h, w) is what the mask itself said of some of it: attention of an unbounded mask is
    divided by its maximum, and would never look black. `gate` is what a hard mask makes of it.
    """
    labels = list(MaskMonitor(patience=1).look(cells, raw, gate).labels)
    contrast = float((cells.amax(dim=(2, 3)) - cells.amin(dim=(2, 3))).mean())
    if contrast < SMALLEST_CONTRAST and not {"black", "saturated", "open"} & set(labels):
        labels.append("flat")
    return labels


def _scores(recording: Recording) -> pd.DataFrame:
    maps, masks, uniform = recording.maps(), recording.masks(), recording.uniform()
    size = recording.view.network.shape[1:]
    table = attention_scores(
        maps,
        masks | recording.movers(masks),
        recording.blocks,
        cells=recording.view.basis(size),
        weights=recording.weights(),
        uniform=uniform,
        tolerance=TOLERANCE * size[0] / 84,
    )
    tracked = recording.game.tracked
    if tracked is None:
        return table
    lag = object_lag(
        relative(maps, uniform),
        masks[tracked],
        recording.blocks,
        recording.times,
        every=recording.view.every,
    )
    if np.isfinite(lag.value):
        row = {"object": tracked, "metric": "lag", "value": lag.value, "low": lag.low}
        row |= {"high": lag.high, "n_frames": lag.n_frames}
        table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
    return table


def measure_faithfulness(
    found: Study,
    variant: VariantSpec,
    *,
    games: int = 8,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Deletion, insertion, masked play and the sanity check as one long table."""
    recording = found.recording
    view, observations = recording.view, recording.observations
    filling = typical_picture(observations)
    some = _spread(len(observations), FAITHFUL_LOOKS)
    maps = recording.maps()[some]
    curves = policy_curves(
        view.network,
        observations[some],
        maps,
        filling=filling,
        seed=seed,
        state=tuple(part[some] for part in recording.state),
    )
    areas = curve_table(curves, recording.blocks[some]).rename(
        columns={"order": "condition", "area": "value"}
    )
    returns = masked_returns(view, variant, filling, games=games, seed=seed, settings=settings)
    returns = returns.rename(columns={"score": "value"}).assign(test="return")
    few = _spread(len(observations), SANITY_LOOKS)
    past = tuple(part[few] for part in recording.state)
    sanity = sanity_check(view, observations[few], seed, past).rename(
        columns={"randomised_up_to": "condition", "similarity": "value"}
    )
    found.faithfulness = pd.concat(
        [areas, returns, sanity.assign(test="weights randomised")], ignore_index=True
    )
    return found.faithfulness


def _spread(total: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, total - 1, min(total, count)).round().astype(int))


def write(
    found: Study, folder: Path, identity: Mapping[str, Any], *, pictures: bool = True
) -> None:
    """Put a study into the run folder; `identity` has the columns that name the agent."""
    place = folder / "attention"
    place.mkdir(parents=True, exist_ok=True)
    name = study_name(found.variant)
    columns = {k: identity[k] for k in ("run", "method", "train_seed", "step")}
    columns |= {"variant": found.variant, "view": found.recording.view.name}
    columns |= {"player": found.recording.player}
    if found.scores is not None:
        _merge(place / "scores.csv", found.scores, columns, SCORES)
    if found.faithfulness is not None:
        _merge(place / "faithfulness.csv", found.faithfulness, columns, FAITHFULNESS)
    if not pictures:
        return
    _label(place / "labels.json", name, found, int(columns["step"]))
    if found.scores is not None:
        picture = place / f"{name}_over_training.svg"
        write_trend(place / "scores.csv", found.variant, picture, found.recording.game.classes)
    view = found.recording.view.words
    title = f"{identity['method']} · {found.variant} · {view} · step {columns['step']}"
    if found.recording.player != "agent":
        title += f" · {found.recording.player} plays"
    write_picture(contact_sheet(found.recording, title), place / f"{name}.png")
    write_video(found.recording, place / f"{name}.mp4")


def study_name(variant: str) -> str:
    """What a variant's files are called; names of a user's own module hold a colon."""
    return file_name(variant, other="_")


def _merge(path: Path, rows: pd.DataFrame, columns: Mapping[str, Any], table: TableSchema) -> None:
    """Add rows to a table, in place of earlier ones that were measured in the same way."""
    named = rows.copy()
    for position, (key, value) in enumerate(columns.items()):
        named.insert(position, key, value)
    try:
        merge(path, named, table)
    except Unreadable:  # nothing of it can be read: kept aside, and the study is not lost
        os.replace(path, path.with_name(f"{path.name}.damaged"))
        merge(path, named, table)


def _label(path: Path, name: str, found: Study, step: int) -> None:
    """Add a study to the labels; two studies of one run at once do so one after the other."""
    with locked(path):
        _add_label(path, name, found, step)


def _add_label(path: Path, name: str, found: Study, step: int) -> None:
    try:
        known = json.loads(guard.read_text(path))
        labels, about = dict(known["labels"]), dict(known["about"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # none yet, or damaged
        labels, about = {}, {}
    labels.pop(name, None)
    if found.labels is not None:
        labels[name] = found.labels
    seen = {"view": found.recording.view.name, "player": found.recording.player}
    about[name] = {"variant": found.variant, **seen, "step": step, **found.numbers}
    write_atomically(path, json.dumps({"labels": labels, "about": about}, indent=1) + "\n")
