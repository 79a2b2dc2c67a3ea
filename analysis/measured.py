"""What the report shows beside scores: twin evaluation, attention and whether it is faithful."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.contents import METHOD, SEEDS, VARIANT, spread
from reprl.analysis.stats import estimate, mean
from reprl.analysis.tables import Column, Table
from reprl.analysis.tidy import MEASURES

REFERENCES = {  # what a score of attention is held against
    "chance": "a mask that is the same everywhere",
    "static": "the run's average map, had it never moved",
    "ceiling": "the most a map of these cells can reach",
}


def last_step(measured: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's newest measured checkpoint."""
    if "step" not in measured:
        return measured
    step = pd.to_numeric(measured["step"], errors="coerce").fillna(0)
    return measured[step == step.groupby(measured["run"]).transform("max")]


def twin_table(twin: pd.DataFrame) -> Table:
    """Twin evaluation: each seed's mean over steps, then the estimate over seeds."""
    rows = []
    if not twin.empty:
        keys = ["method", "variant", "train_seed"]  # copies of a run count once
        per_seed = last_step(twin).groupby(keys, sort=False)[list(MEASURES)].mean()
        for (method, variant), part in per_seed.groupby(level=["method", "variant"], sort=False):
            row: dict[str, Any] = {"method": method, "variant": variant, "n_seeds": len(part)}
            for measure in MEASURES:
                got = estimate(mean, part[measure].to_numpy())
                row |= {measure: got.value, f"{measure}_low": got.low, f"{measure}_high": got.high}
            rows.append(row)
    labels = {"js": "Policy JS", "flip": "Action flips", "value_error": "Value error"}
    columns = [METHOD, VARIANT, SEEDS]
    for measure, text in MEASURES.items():
        label = labels.get(measure, text.capitalize())
        columns.append(spread(measure, label, "share" if measure == "flip" else "small", text))
    note = (
        "The same moments of one game, drawn clean and as the variant: how far the agent's answers "
        "move. 0 means the variant changes nothing."
    )
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=[c.key for c in columns])
    return Table("twin", "Twin evaluation", columns, frame, note, "variant")


def with_usual(measured: pd.DataFrame) -> pd.DataFrame:
    """Rows that say which view they are of and who played, also where that was left out."""
    usual = {"view": "mask", "player": "agent"}
    return measured.assign(
        **{k: pd.Series(measured.get(k, v), measured.index).fillna(v) for k, v in usual.items()}
    )


def _with_views(measured: pd.DataFrame) -> pd.DataFrame:
    """Rows whose view also says who played, where that was not the agent itself."""
    rows = with_usual(measured)
    view, player = rows["view"], rows["player"]
    return rows.assign(view=view.where(player == "agent", view + ", " + player + " plays"))


def attention_table(attention: pd.DataFrame) -> Table:
    """Where the mask lies against the truth: estimate over runs beside chance."""
    rows = []
    keys = ["method", "variant", "view", "object", "metric"]
    if not attention.empty:
        for values, part in _with_views(last_step(attention)).groupby(keys, sort=False):
            got = estimate(mean, part.groupby("train_seed")["value"].mean().to_numpy())
            low, high = got.low, got.high
            if got.n_seeds == 1:  # one run: its own interval over games, as measured
                low, high = part["low"].mean(), part["high"].mean()
            if part["metric"].iloc[0] != "lag":  # a t interval knows no limits
                low, high = np.clip([low, high], 0, 1)
            row = dict(zip(keys, values, strict=True))
            row |= {"n_seeds": got.n_seeds, "value": got.value}
            row |= {"value_low": low, "value_high": high}
            rows.append(row | part[list(REFERENCES)].mean().to_dict())
    columns = [
        METHOD,
        VARIANT,
        Column("view", "View", help="the agent's own mask, or saliency computed from it"),
        Column("object", "Object"),
        Column("metric", "Measure"),
        SEEDS,
        spread("value", "Value", "small"),
        *(Column(key, key.capitalize(), "small", help=text) for key, text in REFERENCES.items()),
    ]
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=[c.key for c in columns])
    note = (
        "Energy: share of the mask on the object. Pointing: how often its peak is on it. AUC: how "
        "well it separates the object from the rest. Attention that follows an object is above "
        "static, not only above chance; compare with the ceiling, not with 1. Lag: by how many "
        "steps it is behind it. Intervals are over runs; where there is one run, over games."
    )
    return Table("attention", "Attention against the truth", columns, frame, note, "variant")


def faithfulness_table(measured: pd.DataFrame) -> Table:
    """Whether the policy depends on what is marked more than on other pixels."""
    rows = []
    keys = ["method", "variant", "view", "test"]
    if not measured.empty:
        frame = last_step(measured)
        frame = frame[frame["test"].isin(("deletion", "insertion"))]
        for values, part in _with_views(frame).groupby(keys, sort=False):
            own = part.loc[part["condition"] == "attention", "value"].mean()
            for order, rival in part[part["advantage"].notna()].groupby("condition", sort=False):
                got = estimate(mean, rival.groupby("train_seed")["advantage"].mean().to_numpy())
                low, high = got.low, got.high
                if got.n_seeds == 1:  # one run: its own interval over games, as measured
                    low, high = rival["advantage_low"].mean(), rival["advantage_high"].mean()
                row = dict(zip(keys, values, strict=True)) | {"order": order, "area": own}
                row |= {"rival": rival["value"].mean(), "n_seeds": got.n_seeds}
                row |= {"advantage": got.value, "advantage_low": low, "advantage_high": high}
                rows.append(row)
    columns = [
        METHOD,
        VARIANT,
        Column("view", "View", help="the agent's own mask, or saliency computed from it"),
        Column("test", "Test"),
        Column("order", "Against", help="shifted: the same map, moved elsewhere"),
        SEEDS,
        Column("area", "Area", "small", help="policy KL over the share of pixels, marked first"),
        Column("rival", "Rival's area", "small"),
        spread("advantage", "Advantage", "small", "positive where the map does better"),
    ]
    found = pd.DataFrame(rows) if rows else pd.DataFrame(columns=[c.key for c in columns])
    note = (
        "Deletion takes the marked pixels away first, insertion brings them back first: a faithful "
        "map changes the policy sooner than the same number of random pixels. An advantage whose "
        "interval holds 0 shows nothing."
    )
    return Table("faithfulness", "Does the policy depend on it?", columns, found, note, "variant")
