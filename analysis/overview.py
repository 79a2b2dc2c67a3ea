"""The numbers of the first plot, of the matrix and of the profiles, from games played.

results -> **overview**: who stands in which row, every run's score, means with their intervals,
differences to the baseline; -> charts.py puts them into the page, plots.py into figure files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.coverage import main_variants
from reprl.analysis.definitions import PLOTS
from reprl.analysis.finding import Finding, signed
from reprl.analysis.gap import Played
from reprl.analysis.pairwise import Difference, difference, probability_of_improvement
from reprl.analysis.stats import ENOUGH_SEEDS
from reprl.analysis.tables import form
from reprl.naming import is_baseline
from reprl.schema import CLEAN

BANDS = {  # what the bands are called, by whether there are few seeds
    True: "t interval over runs (few: read the dots)",
    False: "95 % interval over runs",
}


def row_order(summary: pd.DataFrame, methods: Sequence[str]) -> list[str]:
    """By the score on the variants, then by the clean game; untrained players last."""
    if summary.empty:
        return sorted(methods, key=is_baseline)
    known = summary.set_index("method")

    def key(method: str) -> tuple[bool, bool, float, float]:
        if method not in known.index:
            return is_baseline(method), True, 0.0, 0.0
        row = known.loc[method]
        score, clean = (float(np.nan_to_num(row[k], nan=-np.inf)) for k in ("score", "clean"))
        return False, False, -score, -clean

    return sorted(methods, key=key)


def overview(table: Played, found: Finding, order: Sequence[str]) -> dict[str, Any]:
    """Rows, the baseline and the differences to it; scores and seeds are in the charts' data."""
    shared = main_variants(table.scores)
    return {
        "order": [m for m in order if m in table.methods()],
        "baseline": found.baseline if found.differences else None,
        "mean": _mean_of(shared),
        "lowest": table.lowest if np.isfinite(table.lowest) else None,
        "difference": {
            method: {"value": d.value, "low": d.low, "high": d.high, "text": signed(d)}
            for method, d in found.differences.items()
        },
        "band": BANDS[_few(table)],
    }


def _mean_of(variants: Sequence[str]) -> str:
    """What differences are of, in words."""
    words = PLOTS["overview"]
    if len(variants) == 1:
        return str(words["one"]).format(variant=variants[0])
    return str(words["mean"]).format(count=len(variants))


def _few(table: Played) -> bool:
    counts = table.scores.groupby(level="method").size()
    trained = [int(n) for m, n in counts.items() if not is_baseline(str(m))]
    return bool(trained) and min(trained) < ENOUGH_SEEDS


def matrix(table: Played, order: Sequence[str]) -> dict[str, Any]:
    """Row minus column on the mean of the variants, and how often a run of the row wins."""
    variants = main_variants(table.scores)
    methods = [m for m in order if m in table.methods() and not is_baseline(m)]
    if len(methods) < 2 or not variants:
        return {"methods": [], "cells": []}
    samples = {m: table.sample(m, variants) for m in methods}
    cells = []
    for row in methods:
        line: list[dict[str, Any] | None] = []
        for column in methods:
            a, b = samples[row], samples[column]
            if row == column or not len(a.runs) or not len(b.runs):
                line.append(None)
                continue
            gap = difference(a, b)
            wins = probability_of_improvement(a.runs, b.runs)
            line.append(_cell(gap, wins.value))
        cells.append(line)
    return {"methods": methods, "cells": cells}


def _cell(gap: Difference, wins: float) -> dict[str, Any]:
    clear = bool(gap.low > 0 or gap.high < 0)
    sign = "+" if gap.value > 0 else ""
    interval = ""
    if np.isfinite(gap.low):
        interval = f"[{form(gap.low, 'score')}, {form(gap.high, 'score')}]"
    return {
        "value": gap.value,
        "text": f"{sign}{form(gap.value, 'score')}",
        "interval": interval,
        "certain": clear,
        "wins": form(wins, "share"),
    }


def profiles(table: Played, order: Sequence[str]) -> list[dict[str, Any]]:
    """Per method the share of runs and held-out variants with more than so many points."""
    variants = main_variants(table.scores)
    out = []
    for method in order:
        if method not in table.methods() or is_baseline(method) or not variants:
            continue
        values = np.sort(table.scores.loc[[method], variants].to_numpy(float).ravel())
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        places = np.unique(values)
        above = [float((values > place).mean()) for place in places]
        points = [[0.0, float((values > 0).mean())]] if places[0] > 0 else []
        points += [[float(x), y] for x, y in zip(places, above, strict=True)]
        out.append({"method": method, "points": points, "count": len(values)})
    return out


def where_it_looks(attention: pd.DataFrame, tracked: str | None) -> dict[str, dict[str, str]]:
    """Per method what its view is and how often its peak is on the object, in words."""
    if attention.empty or tracked is None:
        return {}
    rows = attention[(attention["metric"] == "pointing") & (attention["chance"] > 0)]
    out: dict[str, dict[str, str]] = {}
    for method, own in rows.groupby("method", sort=False):
        agents = own[~own["view"].str.endswith(" plays")]
        views = list(dict.fromkeys(agents["view"]))
        if not views:
            continue
        view = "mask" if "mask" in views else views[0]
        agents = agents[agents["view"] == view]
        words: dict[str, str] = {"view": view}
        ball = agents[agents["object"] == tracked]
        for name, part in (("clean", ball[ball["variant"] == CLEAN]), ("varied", ball)):
            if name == "varied":
                part = part[part["variant"] != CLEAN]
            if len(part):
                words[name] = _times(part)
        lines = agents[(agents["object"] == "distractor") & (agents["variant"] != CLEAN)]
        if len(lines):
            words["distractor"] = _times(lines)
        out[str(method)] = words
    return out


def _times(part: pd.DataFrame) -> str:
    ratio = float((part["value"] / part["chance"]).mean())
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def page_order(looks: Mapping[str, Any], order: Sequence[str]) -> list[str]:
    """Methods as the page lists them: as the rows of the first plot, then all others."""
    return [*(m for m in order if m in looks), *(m for m in looks if m not in order)]
