"""What the report shows of games: from collected results to its tables, in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from reprl.analysis.finding import Finding
from reprl.analysis.gap import generalization_gap, score_estimates
from reprl.analysis.load import Results
from reprl.analysis.severity import RULE, difficulty, severity_areas
from reprl.analysis.stats import ENOUGH_SEEDS, relative_gap
from reprl.analysis.summary import EXPLORATORY
from reprl.analysis.tables import DASH, Column, Table
from reprl.naming import (
    PERSON,
    is_plain,
    trained_variants,
)

METHOD = Column("method", "Method")
VARIANT = Column("variant", "Variant")
BETTER = "how often a run beats one of the other; needs two seeds of each"
REACHES = "its score above random, as a share of what the plain agent learned on the clean game"
SEEDS = Column("n_seeds", "Seeds", "count")
LOOKS = (
    "how often the peak of its mask or gradient is on the ball, as a multiple of chance: on the "
    "clean game → on the variants"
)
DISTRACTED = "how often that peak is on what the variant draws, as a multiple of chance"


def spread(key: str, label: str, kind: Any = "score", help: str = "") -> Column:
    """A column whose interval lies in key_low and key_high."""
    return Column(key, label, kind, f"{key}_low", f"{key}_high", help)


NEAR_AND_FAR = [
    spread("near", "Near ones", help="like an augmentation some method was trained with"),
    spread("far", "Far ones", help="like none of the augmentations"),
]


def interval_words(seeds: Iterable[float]) -> str:
    """What the brackets of a table are: with few seeds nobody speaks of 95 %."""
    several = [int(n) for n in seeds if n > 1]
    if not several:
        return "A single training run has no interval."
    if min(several) >= ENOUGH_SEEDS:
        return "Brackets are 95 % intervals over whole training runs; a single one has none."
    return (
        f"Brackets are t intervals over whole training runs, as few as {min(several)}: below "
        f"{ENOUGH_SEEDS} read the runs themselves. A single one has none."
    )


def overall_table(
    summary: pd.DataFrame,
    found: Finding | None = None,
    looks: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """The ranking, a line a method: scores, what is kept, the difference to the baseline, looks."""
    if summary.empty:  # only random or scripted players were measured
        return Table("overall", "", [], summary)
    by_order = summary.sort_values(["order", "score"], ascending=[True, False], na_position="last")
    frame = by_order.drop(columns=["order", "why"]).reset_index(drop=True)
    frame["beats"] = [
        f"{b} of {n}" if r is not None else "unknown"
        for b, n, r in zip(frame["beat_random"], frame["n_seeds"], frame["ranked"], strict=True)
    ]
    gaps = found.differences if found is not None else {}
    for key, end in (
        ("difference", "value"),
        ("difference_low", "low"),
        ("difference_high", "high"),
    ):
        frame[key] = [getattr(gaps[m], end) if m in gaps else float("nan") for m in frame["method"]]
    seen = [(looks or {}).get(str(m), {}) for m in frame["method"]]
    frame["looks"] = [_looks(found) for found in seen]
    frame["distracted"] = [found.get("distractor", DASH) for found in seen]
    all_beat = bool((frame["beat_random"] == frame["n_seeds"]).all())
    columns = [
        METHOD,
        *([SEEDS] if frame["n_seeds"].nunique() > 1 else []),
        spread("clean", "Clean game"),
        spread("score", "Variants", help="mean over the variants all runs share"),
        *NEAR_AND_FAR[: 2 * int(frame["near"].notna().any())],
        spread("retention", "Kept", "share", "share of what was learned that survives"),
    ]
    if found is not None and gaps:
        columns.append(spread("difference", f"Minus {found.baseline}", help="points, Welch"))
    columns.append(Column("runs", "Each run", help="score on variants of every training run"))
    if not all_beat:
        columns.append(Column("beats", "Runs better than random"))
    if looks:
        columns.append(Column("looks", "Looks at the ball", help=LOOKS))
        columns.append(Column("distracted", "at the drawing", help=DISTRACTED))
    note = (
        "Ordered by the score on the variants. Kept: retention = (score − random on the variant) / "
        "(clean − random on the clean game); it is high for methods that learned little too. "
        f"{interval_words(frame['n_seeds'])}"
    )
    if frame["near"].notna().any():
        note += " Near variants resemble an augmentation some method was trained with."
    if (frame["ranked"].map(lambda r: r is True) & frame["rank"].isna()).any():
        note += " Without an interval no rank, since another seed may turn the order round."
    return Table("overall", "Methods at a glance", columns, frame, note)


def _looks(found: Mapping[str, str]) -> str:
    """`52× → 36× gradient`: clean and varied, as far as it was measured, and by which view."""
    times = " → ".join(found[k] for k in ("clean", "varied") if k in found)
    return f"{times} {found['view']}" if times else DASH


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
    note = f"Mean score of full games, in points. {interval_words(long['n_seeds'])}"
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


def comparison_table(frame: pd.DataFrame) -> Table:
    """Method against method, exploratory."""
    columns = [
        METHOD,
        Column("against", "Against"),
        VARIANT,
        SEEDS,
        spread("difference", "Difference", help="points; Welch over runs"),
        spread("improvement", "P(better)", "share", BETTER),
    ]
    return Table("comparisons", "Method against method", columns, frame, EXPLORATORY, "variant")


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
    by_hand = bool((results.episodes["method"] == PERSON).any())
    columns = [
        VARIANT,
        Column("random", "Random", "score"),
        Column("plain", "Plain agent", "score"),
        Column("trained_on_it", "Trained on it", "score"),
        Column("best_method", "Best agent", help="of those trained on it, else of all"),
        Column("best", "Its score", "score"),
        *([Column("person", "A person", "score")] if by_hand else []),
        Column("plain_share", "Plain agent keeps", "share", help="its retention"),
        Column("best_share", "Best agent reaches", "share", help=REACHES),
        Column("label", "Difficulty"),
    ]
    frame = difficulty(results.episodes, plain, trained)
    return Table("difficulty", "Difficulty of the variants", columns, frame, RULE)
