"""What the report shows: from collected results to its tables, in reading order."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reprl.analysis.gap import generalization_gap, score_estimates
from reprl.analysis.naming import (
    is_plain,
    trained_variants,
)
from reprl.analysis.results import Results
from reprl.analysis.severity import RULE, difficulty, severity_areas
from reprl.analysis.statistics import estimate, mean
from reprl.analysis.tables import Column, Table
from reprl.analysis.tidy import MEASURES

METHOD = Column("method", "Method")
VARIANT = Column("variant", "Variant")
BETTER = "how often a run beats one of the other; needs two seeds of each"
REACHES = "its score above random, as a share of what the plain agent learned on the clean game"
SEEDS = Column("n_seeds", "Seeds", "count")


def spread(key: str, label: str, kind: Any = "score", help: str = "") -> Column:
    """A column whose interval lies in key_low and key_high."""
    return Column(key, label, kind, f"{key}_low", f"{key}_high", help)


def overall_table(summary: pd.DataFrame) -> Table:
    """The ranking."""
    frame = summary.sort_values("order").drop(columns="order").reset_index(drop=True)
    frame["beats"] = [
        f"{b} of {n}" if r is not None else "unknown"
        for b, n, r in zip(frame["beat_random"], frame["n_seeds"], frame["ranked"], strict=True)
    ]
    columns = [
        METHOD,
        Column("rank", "Rank", "count", help="by mean retention; not ranked if random is as good"),
        SEEDS,
        spread("clean", "Clean score"),
        spread("score", "Score on variants", help="mean over the variants all runs share"),
        spread("retention", "Retention, mean", "share", "share of what was learned that survives"),
        spread("iqm", "Retention, IQM", "share", "without the upper and lower quarter"),
        Column("beats", "Runs better than random"),
    ]
    note = (
        "Retention = (score − random on the variant) / (clean − random on the clean game). Brackets"
        " are 95 % intervals over whole training runs; a single seed has none."
    )
    if (frame["n_seeds"] == 1).any():
        note += " One seed: no rank, since another seed may turn the order round."
    return Table("overall", "Methods at a glance", columns, frame, note)


def scores_table(episodes: pd.DataFrame, variants: list[str]) -> Table:
    """Methods x variants."""
    long = score_estimates(episodes)
    frame = pd.DataFrame({"method": long["method"].unique()})
    seeds = long.groupby("method")["n_seeds"].max()
    frame["n_seeds"] = frame["method"].map(seeds)
    columns = [METHOD, SEEDS]
    for variant in variants:
        own = long[long["variant"] == variant].set_index("method")
        for suffix, key in (("", "score"), ("_low", "low"), ("_high", "high")):
            frame[f"{variant}{suffix}"] = frame["method"].map(own[key])
        columns.append(spread(variant, variant))
    note = "Mean score of full games, in points, with 95 % intervals over whole training runs."
    return Table("scores", "Scores", columns, frame, note)


def gap_table(episodes: pd.DataFrame) -> Table:
    """The generalization gap, with the columns every user of the data relies on."""
    columns = [
        METHOD,
        VARIANT,
        SEEDS,
        Column("score", "Score", "score"),
        Column("clean", "Clean", "score"),
        spread("gap", "Gap", help="points lost against the clean game"),
        spread("retention", "Retention", "share"),
    ]
    gaps = generalization_gap(episodes)
    return Table("gap", "Generalization gap", columns, gaps, chosen_by="variant")


def comparison_table(frame: pd.DataFrame, sentence: str) -> Table:
    """Method against method."""
    columns = [
        METHOD,
        Column("against", "Against"),
        VARIANT,
        SEEDS,
        spread("difference", "Difference", help="points; paired by seed where seeds agree"),
        spread("improvement", "P(better)", "share", BETTER),
        Column("p", "p (Holm)", "p"),
    ]
    return Table("comparisons", "Method against method", columns, frame, sentence, "variant")


def area_table(episodes: pd.DataFrame) -> Table:
    """Areas under the severity curves."""
    columns = [
        METHOD,
        Column("curve", "Variant"),
        SEEDS,
        spread("area", "Mean score over severities"),
        spread("retention_area", "Mean retention", "share"),
    ]
    frame = severity_areas(episodes)
    return Table("severity", "Area under the severity curve", columns, frame)


def difficulty_table(results: Results) -> Table:
    """Which variants can tell methods apart."""
    plain = sorted({r.method for r in results.runs if is_plain(r.config)})
    trained = {r.method: trained_variants(r.config) for r in results.runs}
    columns = [
        VARIANT,
        Column("random", "Random", "score"),
        Column("plain", "Plain agent", "score"),
        Column("trained_on_it", "Trained on it", "score"),
        Column("best_method", "Best agent", help="of those trained on it, else of all"),
        Column("best", "Its score", "score"),
        Column("plain_share", "Plain agent keeps", "share", help="its retention"),
        Column("best_share", "Best agent reaches", "share", help=REACHES),
        Column("label", "Difficulty"),
    ]
    frame = difficulty(results.episodes, plain, trained)
    return Table("difficulty", "Difficulty of the variants", columns, frame, RULE)


def last_step(measured: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's newest measured checkpoint."""
    if "step" not in measured:
        return measured
    step = pd.to_numeric(measured["step"], errors="coerce").fillna(0)
    return measured[step == step.groupby(measured["run"]).transform("max")]


def twin_table(twin: pd.DataFrame) -> Table:
    """Twin evaluation: each run's mean over steps, then the estimate over runs."""
    rows = []
    if not twin.empty:
        per_run = (
            last_step(twin).groupby(["method", "variant", "run"], sort=False)[list(MEASURES)].mean()
        )
        for (method, variant), part in per_run.groupby(level=["method", "variant"], sort=False):
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


def attention_table(attention: pd.DataFrame) -> Table:
    """Where the mask lies against the truth: estimate over runs beside area-matched chance."""
    rows = []
    keys = ["method", "variant", "view", "object", "metric"]
    if not attention.empty:
        measured = last_step(attention)
        if "view" not in measured:
            measured = measured.assign(view="mask")
        for values, part in measured.groupby(keys, sort=False):
            got = estimate(mean, part.groupby("run")["value"].mean().to_numpy())
            low, high = got.low, got.high
            if got.n_seeds == 1:  # one run: its own interval over frames, as measured
                low, high = part["low"].mean(), part["high"].mean()
            row = dict(zip(keys, values, strict=True))
            row |= {"n_seeds": got.n_seeds, "value": got.value}
            rows.append(
                row | {"value_low": low, "value_high": high, "chance": part["chance"].mean()}
            )
    columns = [
        METHOD,
        VARIANT,
        Column("view", "View", help="the agent's own mask, or saliency computed from it"),
        Column("object", "Object"),
        Column("metric", "Measure"),
        SEEDS,
        spread("value", "Value", "small"),
        Column("chance", "Chance", "small", help="a mask of equal area anywhere"),
    ]
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=[c.key for c in columns])
    note = (
        "Energy: share of the mask on the object. Pointing: how often its peak is on it. AUC: how "
        "well it separates the object from the rest. Intervals are over runs, or over frames where "
        "there is one run."
    )
    return Table("attention", "Attention against the truth", columns, frame, note, "variant")


def faithfulness_table(measured: pd.DataFrame) -> Table:
    """Whether the policy depends on what is marked more than on other pixels."""
    rows = []
    keys = ["method", "variant", "view", "test"]
    if not measured.empty:
        frame = last_step(measured)
        frame = frame[frame["test"].isin(("deletion", "insertion"))]
        frame = frame.assign(view=frame.get("view", "mask"))
        for values, part in frame.groupby(keys, sort=False):
            own = part.loc[part["condition"] == "attention", "value"].mean()
            for order, rival in part[part["advantage"].notna()].groupby("condition", sort=False):
                got = estimate(mean, rival.groupby("run")["advantage"].mean().to_numpy())
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
