"""The numbers behind the plots, once: the page and the figure files draw from the same data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.curves import (
    POINTS,
    STEP_COLUMNS,
    TIME_COLUMNS,
    banded,
    load_curve,
    together,
)
from reprl.analysis.definitions import PLOTS
from reprl.analysis.gap import generalization_gap, random_scores, run_scores, score_estimates
from reprl.analysis.load import Results
from reprl.analysis.measured import REFERENCES
from reprl.analysis.palette import Style
from reprl.analysis.severity import severity_curves
from reprl.analysis.stats import Array
from reprl.analysis.tables import Table
from reprl.analysis.tidy import MEASURES
from reprl.naming import is_baseline
from reprl.schema import CLEAN

POINT = ["value", "low", "high"]


def chart_data(
    results: Results, styles: dict[str, Style], variants: list[str], twin: Table, attention: Table
) -> dict[str, Any]:
    """Plain JSON data: methods, points per variant, seeds, curves, twins, attention."""
    data: dict[str, Any] = {
        "methods": [
            {"name": m, "colour": s.index, "shape": s.shape, "baseline": is_baseline(m)}
            for m, s in styles.items()
        ],
        "variants": variants,
        "clean": CLEAN,
        "points": {"retention": [], "gap": [], "score": []},
        "seeds": [],
        "random": {},
        "severity": [],
        "learning": {"steps": learning(results), "hours": learning_by_hours(results)},
        "words": PLOTS,
        "measures": MEASURES,
        "twin": [],
        "twin_variants": list(dict.fromkeys([*variants, *twin.frame["variant"]])),
        "attention": [],
    }
    if not results.episodes.empty:
        _scores(results.episodes, variants, data)
    for row in twin.frame.to_dict("records"):
        values = {m: [row[m], row[f"{m}_low"], row[f"{m}_high"]] for m in MEASURES}
        data["twin"].append({"method": row["method"], "variant": row["variant"]} | values)
    # A mask and a gradient answer different questions: each kind has a plot of its own. Of one kind
    # a method may have several views, and on each variant others: the plot of a variant shows one.
    views: dict[tuple[str, str, str], str] = {}
    for row in attention.frame.to_dict("records"):
        place = (row["method"], row["variant"], kind_of(row["view"]))
        views[place] = min(views.get(place, row["view"]), row["view"], key=_preference)
    for row in attention.frame.to_dict("records"):
        kind = kind_of(row["view"])
        if row["view"] != views[row["method"], row["variant"], kind]:
            continue
        keys = ("method", "variant", "view", "object", "metric", "value", *REFERENCES)
        ends = {"low": row["value_low"], "high": row["value_high"], "kind": kind}
        data["attention"].append({k: row[k] for k in keys} | ends)
    return dict(jsonable(data))


def kind_of(view: str) -> str:
    """`mask` for what the agent itself multiplies by, `saliency` for what is computed from it."""
    return "mask" if view.startswith("mask") else "saliency"


def _preference(view: str) -> bool:
    """Games the agent itself plays come first."""
    return view.endswith(" plays")


def _scores(episodes: pd.DataFrame, variants: list[str], data: dict[str, Any]) -> None:
    gaps = generalization_gap(episodes)
    shown = gaps[gaps["variant"].isin(variants)]
    for name in ("retention", "gap"):
        columns = ["method", "variant", "n_seeds", name, f"{name}_low", f"{name}_high"]
        part = shown.loc[shown["variant"] != CLEAN, columns].copy()
        part.columns = ["method", "variant", "n", *POINT]
        data["points"][name] = part.dropna(subset=["value"]).to_dict("records")
    scores = score_estimates(episodes)
    part = scores.loc[
        scores["variant"].isin(variants), ["method", "variant", "n_seeds", "score", "low", "high"]
    ].copy()
    part.columns = ["method", "variant", "n", *POINT]
    data["points"]["score"] = part.to_dict("records")
    table = run_scores(episodes)
    data["random"] = random_scores(table).dropna().to_dict()
    for index, row in table.iterrows():
        method, seed = index if isinstance(index, tuple) else (index, -1)
        if not is_baseline(str(method)):
            values = row.dropna().to_dict()
            data["seeds"].append({"method": method, "seed": seed, "scores": values})
    curves = severity_curves(episodes)
    for (curve, method), part in curves.groupby(["curve", "method"], sort=False):
        points = part[["severity", "score", "low", "high", "n_seeds"]].to_numpy().tolist()
        data["severity"].append({"curve": curve, "method": method, "points": points})


def learning(results: Results) -> list[dict[str, Any]]:
    """One banded training curve per method, and every seed's own; copies of a run are one seed."""
    return _learning(results, STEP_COLUMNS, 1.0)


def learning_by_hours(results: Results) -> list[dict[str, Any]]:
    """The same over the time that training took."""
    return _learning(results, TIME_COLUMNS, 3600.0)


def _learning(results: Results, columns: Sequence[str], unit: float) -> list[dict[str, Any]]:
    curves: dict[str, dict[int, list[tuple[Array, Array]]]] = {}
    for run in results.runs:
        curve = load_curve(run.metrics, columns) if run.metrics is not None else None
        if curve is not None:
            curve = (curve[0] / unit, curve[1])
            curves.setdefault(run.method, {}).setdefault(run.seed, []).append(curve)
    out = []
    for method, seeds in curves.items():
        each = {seed: together(same) for seed, same in seeds.items()}
        band = banded(list(each.values()))
        points = band[["step", "score", "low", "high", "n_seeds"]].to_numpy().tolist()
        thin = [{"seed": seed, "points": _thinned(*curve)} for seed, curve in each.items()]
        out.append({"method": method, "points": points, "seeds": thin if len(thin) > 1 else []})
    return out


def _thinned(x: Array, y: Array) -> list[list[float]]:
    """A curve of at most as many points as its band has, ends included."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return [[float(f"{a:.5g}"), float(f"{b:.4g}")] for a, b in zip(x[keep], y[keep], strict=True)]


def jsonable(value: Any) -> Any:
    """The same with None for NaN (JSON has none) and floats cut to six digits."""
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, bool | str) or value is None:
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else float(f"{number:.6g}")
