"""Attention over training: how a run's scores changed from checkpoint to checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reprl.analysis.palette import COLOURS, GRAY
from reprl.disk import replacing
from reprl.envs.objects import BACKGROUND
from reprl.schema import SCORES
from reprl.tables import read


def trend(scores: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Energy as a multiple of chance per view, player, object and step, with its interval."""
    energy = scores[(scores["variant"] == variant) & (scores["metric"] == "energy")]
    energy = energy[energy["object"] != BACKGROUND].sort_values("step", kind="stable")
    times = energy[["value", "low", "high"]].div(energy["chance"], axis=0)
    keys = energy[["view", "player", "object", "step"]]
    return pd.concat([keys, times], axis=1).reset_index(drop=True)


def write_trend(table: Path, variant: str, path: Path, classes: Sequence[str] = ()) -> bool:
    """Draw a variant's rows of scores.csv: a panel for each view with two checkpoints or more.

    `classes` are the game's; each keeps its colour whether or not the others were seen.
    """
    found = trend(read(table, SCORES)[0], variant)
    views = {
        view if player == "agent" else f"{view}, {player} plays": part
        for (view, player), part in found.groupby(["view", "player"], sort=False)
        if part["step"].nunique() > 1
    }
    if not views:
        path.unlink(missing_ok=True)
        return False
    figure = Figure(figsize=(6.4, 0.4 + 3.4 * len(views)), layout="constrained")
    panels = figure.subplots(len(views), squeeze=False)[:, 0]
    figure.suptitle(f"attention on {variant}, over training", x=0.01, ha="left", fontsize=11)
    for axes, (name, part) in zip(panels, views.items(), strict=True):
        _lines(axes, part, list(dict.fromkeys([*classes, *part["object"]])))
        axes.set_title(name, loc="left", fontsize=10)
    panels[-1].set_xlabel("training steps")
    with replacing(path) as draft:
        figure.savefig(draft, metadata={"Date": None})
    return True


def _lines(axes: Axes, found: pd.DataFrame, names: list[str]) -> None:
    axes.axhline(1, color=GRAY[0], linewidth=1, linestyle="--")
    axes.annotate(
        "chance", (1, 1), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=GRAY[0]
    )
    for name, (colour, _) in zip(names, cycle(COLOURS), strict=False):
        part = found[found["object"] == name]
        if part.empty:
            continue
        axes.plot(part["step"], part["value"], color=colour, marker="o", markersize=4, label=name)
        axes.fill_between(part["step"], part["low"], part["high"], color=colour, alpha=0.15, lw=0)
    axes.set_ylabel("attention on the object / chance")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
