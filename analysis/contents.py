"""What the report shows of games: from collected results to its tables, in reading order."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reprl.analysis.gap import generalization_gap, score_estimates
from reprl.analysis.load import Results
from reprl.analysis.severity import RULE, difficulty, severity_areas
from reprl.analysis.stats import relative_gap
from reprl.analysis.tables import Column, Table
from reprl.naming import (
    is_plain,
    trained_variants,
)

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
    if summary.empty:  # only random or scripted players were measured
        return Table("overall", "", [], summary)
    frame = summary.sort_values("order").drop(columns=["order", "why"]).reset_index(drop=True)
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
    if (frame["ranked"].map(lambda r: r is True) & frame["rank"].isna()).any():
        note += " Without an interval no rank, since another seed may turn the order round."
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
        Column("relative_gap", "Relative", "share", help="share of the clean score that is lost"),
        spread("retention", "Retention", "share"),
    ]
    gaps = generalization_gap(episodes)
    gaps = gaps.assign(relative_gap=relative_gap(gaps["clean"], gaps["score"]))
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
