"""A probe of one agent: fitted on clean frames, read on the same held-out states in every variant.

moments -> activations -> **probes and their controls** -> rows of `evaluation/probes.csv`.
Beside the agent's layers stand its picture itself, an untrained network of the same shape, labels
that were shuffled before fitting, and the truth as its own input.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reprl import tables
from reprl.analysis.probe.labels import Labels, labels_of, matched
from reprl.analysis.probe.layers import activations, pixels, untrained
from reprl.analysis.probe.linear import Readout, balanced_accuracy, correlation, r2
from reprl.analysis.probe.record import PLAYERS, Moments
from reprl.analysis.probe.subject import runs_of, subject
from reprl.envs import Variant
from reprl.envs.defaults import CLEAN
from reprl.envs.games import game as game_of
from reprl.envs.protocol import VariantSpec
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.twin import comparable
from reprl.evaluation.variants import expand, label
from reprl.policy import PolicyPlayer
from reprl.rng import numpy_stream
from reprl.schema import FILES, PROBES
from reprl.settings import PROBE
from reprl.validation import checker, choice

HELD_OUT = 3  # one game of so many is not fitted on
FEWEST_FIT, FEWEST_READ = 60, 20  # frames with every object in view
Inputs = dict[tuple[str, str], np.ndarray]  # (source, layer) -> (n, units)


def probe(
    agent: Any,
    variants: VariantSpec | Iterable[VariantSpec] = CLEAN,
    *,
    frames: int = 1800,
    games: int = 12,
    every: int = 4,
    seed: int = 0,
    player: str = "agent",
    labels: dict[str, Any] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """One row for each variant, source, layer and label; `agent` is a model, a run or agent:NAME.

    A folder of runs, or a list of any of these, gives the rows of all (`over_runs` their means).

    `frames` moments in all, every n-th step of `games` games, a third of them held out. Sources:
    the agent, untrained (the same network with first weights), pixels (its picture), shuffled
    (the agent's layers fitted to labels of other frames), truth (the labels themselves).
    r2, error (in the label's unit) and correlation of numbers, balanced_accuracy of yes/no labels.
    `attrs["left_out"]` names labels that hardly vary, `attrs["problems"]` variants without a twin,
    `attrs["seconds"]` is what it took.
    """
    if isinstance(agent, list | tuple):
        options: dict[str, Any] = {
            "frames": frames,
            "games": games,
            "every": every,
            "seed": seed,
            "player": player,
        }
        return _together(
            [probe(one, variants, labels=labels, **options, **settings) for one in agent]
        )
    if isinstance(agent, str | Path) and len(found := runs_of(agent)) > 1:
        return probe(
            found,
            variants,
            frames=frames,
            games=games,
            every=every,
            seed=seed,
            player=player,
            **settings,
        )
    began = time.perf_counter()
    check = checker(PROBE)
    frames, games, every = check("frames", frames), check("games", games), check("every", every)
    seed = check("seed", seed)
    choice("player", player, PLAYERS)
    who = subject(agent, labels, settings, "a probe", numbers=True)
    game = game_of(who.game)
    chosen, problems = comparable(expand(variants, (), who.game))

    held = max(1, games // HELD_OUT)
    common: dict[str, Any] = {"every": every, "seed": seed, "player": player}
    share = frames * (games - held) // games
    fitted = who.moments((), frames=share, games=range(games - held), **common)
    held_out = range(games - held, games)
    read = who.moments(chosen, frames=frames - share, games=held_out, **common)
    size = fitted.observations[CLEAN].shape[2:]
    fit_labels, read_labels = (
        labels_of(m.objects, m.before, game, (size[0], size[1])) for m in (fitted, read)
    )
    fit_labels, read_labels = matched(fit_labels, read_labels)
    _require_enough(fit_labels, read_labels, frames)

    rows = _rows(who.watcher, fitted, read, fit_labels, read_labels, chosen, seed)
    about = who.about | {"player": player, "eval_seed": seed, "n_fit": len(fit_labels.frames)}
    about |= {"n_read": len(read_labels.frames), "n_games": games}
    table = pd.DataFrame([about | row for row in rows], columns=list(PROBES.columns))
    table.attrs["left_out"] = fit_labels.left_out
    table.attrs["problems"] = problems
    table.attrs["seconds"] = time.perf_counter() - began
    return table


def _together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables of several runs as one; what one left out, some run left out."""
    if not parts:
        raise UserError("a probe of no run at all: give at least one.")
    table = pd.concat(parts, ignore_index=True)
    table.attrs["left_out"] = {k: v for part in parts for k, v in part.attrs["left_out"].items()}
    table.attrs["problems"] = list(dict.fromkeys(p for t in parts for p in t.attrs["problems"]))
    table.attrs["seconds"] = sum(part.attrs["seconds"] for part in parts)
    return table


def _require_enough(fit: Labels, read: Labels, frames: int) -> None:
    for labels, needed, what in ((fit, FEWEST_FIT, "fit"), (read, FEWEST_READ, "read")):
        if len(labels.frames) < needed:
            raise UserError(
                f"frames={frames} gives {len(labels.frames)} frames to {what} with every object "
                f"in view, and a probe needs {needed}: ask for more frames."
            )
    if not fit.names:
        raise UserError(
            f"frames={frames}: no label varies enough to be probed; ask for more frames, a larger "
            "every, or another player."
        )


def _rows(
    watcher: PolicyPlayer,
    fitted: Moments,
    read: Moments,
    fit_labels: Labels,
    read_labels: Labels,
    variants: list[Variant],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Network by network and view by view, so that few activations are in memory at a time."""
    views = [(CLEAN, None), *((label(v), v.severity) for v in variants)]
    games = fitted.games[fit_labels.frames]
    mixed = numpy_stream(seed, "probe", "shuffled").permutation(len(games))

    def rows_of(moments: Moments, view: str, labels: Labels, source: str, network: Any) -> Inputs:
        observations, state = moments.rows(view, labels.frames)
        if source == "pixels":
            return {(source, "picture"): pixels(observations)}
        if source == "truth":
            return {(source, "labels"): _standardised(labels, fit_labels)}
        found = activations(network, observations, state)
        return {(source, layer): values for layer, values in found.items()}

    networks = {"agent": watcher, "untrained": untrained(watcher, seed)}
    for source in ("agent", "untrained", "pixels", "truth"):
        network = networks.get(source)
        inputs = rows_of(fitted, CLEAN, fit_labels, source, network)
        centres = {key: values.mean(axis=0) for key, values in inputs.items()}
        readouts = {}
        for key, values in inputs.items():
            values -= centres[key]
            wanted, yes_no = fit_labels.values, fit_labels.yes_no
            if source == "agent":  # in the same axes, so that they are found once
                wanted, yes_no = np.hstack([wanted, wanted[mixed]]), np.tile(yes_no, 2)
            readouts[key] = Readout.fit(_products(values, values), wanted, yes_no, games)
        for view, severity in views:
            seen = rows_of(read, view, read_labels, source, network)
            for key, values in seen.items():
                said = readouts[key].read(_products(values - centres[key], inputs[key]))
                about = {"variant": view, "severity": severity, "layer": key[1]}
                about["inputs"] = values.shape[1]
                count = len(read_labels.names)
                for name, part in ((source, said[:, :count]), ("shuffled", said[:, count:])):
                    if part.size:
                        yield from (about | {"source": name} | s for s in scores(part, read_labels))


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products (m, n) of rows; small layers exactly, large ones in single precision."""
    if a.shape[1] <= 1024:
        return a.astype(np.float64) @ b.astype(np.float64).T
    found: np.ndarray = (a @ b.T).astype(np.float64)
    return found


def _standardised(labels: Labels, fit: Labels) -> np.ndarray:
    found: np.ndarray = (labels.values - fit.values.mean(axis=0)) / fit.values.std(axis=0)
    return found


def scores(read: np.ndarray, labels: Labels) -> Iterator[dict[str, Any]]:
    """What was read (n, L) against the labels: a dict for each name, of a grid its cells' mean."""
    for name in dict.fromkeys(labels.names):
        places = [i for i, other in enumerate(labels.names) if other == name]
        row: dict[str, Any] = {"label": name, "unit": labels.units[places[0]]}
        row["columns"] = len(places)
        pairs = [(read[:, i], labels.values[:, i]) for i in places]
        if labels.yes_no[places[0]]:
            row["balanced_accuracy"] = float(np.mean([balanced_accuracy(*p) for p in pairs]))
        else:
            row["r2"] = float(np.mean([r2(*p) for p in pairs]))
            row["error"] = float(np.mean([np.abs(a - b).mean() for a, b in pairs]))
            row["correlation"] = float(np.mean([correlation(*p) for p in pairs]))
        yield row


def write(target: Measured, table: pd.DataFrame) -> Path:
    """Put the rows beside the evaluation; the same probe measured again is replaced."""
    path = target.place / FILES["probes"]
    tables.merge(path, table, PROBES)
    return path


def summary(table: pd.DataFrame, variant: str, sources: Iterable[str]) -> list[list[str]]:
    """R2 of numbers and balanced accuracy of yes/no labels by layer, as text; header first."""
    part = table[table["variant"] == variant]
    names = list(dict.fromkeys(part["label"]))
    lines = [["", "layer", *names]]
    for source in sources:
        own = part[part["source"] == source]
        for layer in dict.fromkeys(own["layer"]):
            at = own[own["layer"] == layer].set_index("label")
            values = at["r2"].fillna(at["balanced_accuracy"])
            lines.append([source, str(layer), *(f"{max(values[n], -99.0):.2f}" for n in names)])
    return lines
