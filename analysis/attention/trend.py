"""Attention over training: how a run's scores changed from checkpoint to checkpoint."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from reprl.analysis.palette import COLOURS, GRAY

SHOWN = ("ball", "paddle", "bricks", "distractor")


def trend(scores: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Energy as a multiple of chance per object and step, with its interval."""
    energy = scores[(scores["variant"] == variant) & (scores["metric"] == "energy")]
    energy = energy[energy["object"].isin(SHOWN)].sort_values("step")
    times = energy[["value", "low", "high"]].div(energy["chance"], axis=0)
    return pd.concat([energy[["object", "step"]], times], axis=1).reset_index(drop=True)


def write_trend(table: Path, variant: str, path: Path) -> bool:
    """Draw a variant's rows of scores.csv once there are two checkpoints of it."""
    found = trend(pd.read_csv(table), variant)
    if found["step"].nunique() < 2:
        return False
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color=GRAY[0], linewidth=1, linestyle="--")
    axes.annotate(
        "chance", (1, 1), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=GRAY[0]
    )
    for name, (colour, _) in zip(SHOWN, COLOURS, strict=False):
        part = found[found["object"] == name]
        if part.empty:
            continue
        axes.plot(part["step"], part["value"], color=colour, marker="o", markersize=4, label=name)
        axes.fill_between(part["step"], part["low"], part["high"], color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="training steps", ylabel="attention on the object / chance")
    axes.set_title(f"attention on {variant}, over training", loc="left", fontsize=11)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    return True
