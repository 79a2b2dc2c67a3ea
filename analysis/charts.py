"""The numbers behind the plots, once: the page and the figure files draw from the same data."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from reprl.analysis.curves import banded, load_curve, together
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
        "learning": learning(results),
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
    # A method may be seen by its mask and by saliency, and on each variant by another of them: the
    # plot of a variant shows one.
    views: dict[tuple[str, str], str] = {}
    for row in attention.frame.to_dict("records"):
        place = (row["method"], row["variant"])
        views[place] = min(views.get(place, row["view"]), row["view"], key=_preference)
    for row in attention.frame.to_dict("records"):
        if row["view"] != views[row["method"], row["variant"]]:
            continue
        keys = ("method", "variant", "view", "object", "metric", "value", *REFERENCES)
        data["attention"].append(
            {k: row[k] for k in keys} | {"low": row["value_low"], "high": row["value_high"]}
        )
    return dict(jsonable(data))


def _preference(view: str) -> tuple[bool, bool]:
    """The mask comes first, in games the agent itself plays."""
    return view.endswith(" plays"), not view.startswith("mask")


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
    """One banded training curve per method; copies of a run count as one seed."""
    curves: dict[str, dict[int, list[tuple[Array, Array]]]] = {}
    for run in results.runs:
        curve = load_curve(run.metrics) if run.metrics is not None else None
        if curve is not None:
            curves.setdefault(run.method, {}).setdefault(run.seed, []).append(curve)
    out = []
    for method, seeds in curves.items():
        band = banded([together(same) for same in seeds.values()])
        points = band[["step", "score", "low", "high", "n_seeds"]].to_numpy().tolist()
        out.append({"method": method, "points": points})
    return out


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
