"""One line per method: does it play, does it generalize, and the sentence that says so."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from reprl.analysis.coverage import different, main_variants, why_unknown, with_random
from reprl.analysis.gap import Played, main_labels, played, prepare
from reprl.analysis.nearness import near_variants
from reprl.analysis.pairwise import (
    beats_random,
    difference,
    is_ranked,
    probability_of_improvement,
)
from reprl.analysis.stats import UNKNOWN, Estimate, mean_estimate
from reprl.analysis.tables import form
from reprl.naming import is_baseline
from reprl.schema import CLEAN

ALL = "all variants"
MOST_COMPARED = 6  # methods; beyond that each is compared with the first one only
EXPLORATORY = (
    "Exploratory: each interval is of one comparison (Welch, over whole runs), not corrected for "
    "their number. Only comparisons declared in a claims file before training are tested."
)


def overall(episodes: pd.DataFrame) -> pd.DataFrame:
    """Per trained method: clean score, mean score and retention over the variants, order, rank.

    The order is that of the score on the variants. Retention never decides it: it rewards having
    learned little. Methods whose runs are mostly no better than random on the clean game have no
    order, and methods without an interval (of one seed) no rank: their place is not known.
    """
    table = played(episodes)
    scores = table.scores
    variants = main_variants(scores)
    known_variants = with_random(variants, scores)
    frame = prepare(episodes)
    verdicts = _verdicts(frame)
    near = [v for v in variants if v in near_variants(frame)]
    far = [v for v in variants if v not in near]
    rows = []
    for method in table.methods():
        if is_baseline(method):
            continue
        known = verdicts.get(method, [])
        play = _mean(table, method, [CLEAN] if CLEAN in scores else [])
        row: dict[str, object] = {"method": method}
        row["n_seeds"] = play.n_seeds or len(scores.loc[[method]])
        row |= _spread("clean", play)
        row |= _spread("score", _mean(table, method, variants))
        row |= _spread("near", _mean(table, method, near if far else []))
        row |= _spread("far", _mean(table, method, far if near else []))
        weights = {v: 1 / len(known_variants) for v in known_variants}
        kept = table.retention(method, weights)
        row |= _spread("retention", kept)
        row["runs"] = _runs(table, method, variants)
        row["beat_random"] = sum(v is True for v in known)
        row["failed"] = sum(v is False for v in known)
        row["ranked"] = is_ranked(known)
        row["why"] = _why(kept.value, is_ranked(known), scores)
        rows.append(row)
    table_ = pd.DataFrame(rows)
    if table_.empty:
        return table_
    table_["ranked"] = pd.Series([r["ranked"] for r in rows], dtype=object)  # True, False or None
    key = table_["score"].where(table_["ranked"].map(lambda r: r is True))
    table_["order"] = key.rank(ascending=False, method="min")
    table_["rank"] = key.where(table_["score_low"].notna()).rank(ascending=False, method="min")
    return table_


def _mean(table: Played, method: str, variants: list[str]) -> Estimate:
    if not variants:
        return UNKNOWN
    return mean_estimate(table.sample(method, variants)).cut(table.lowest)


def _runs(table: Played, method: str, variants: list[str]) -> str:
    """The score on the variants of every run, best first: what few seeds are read from."""
    if not variants:
        return ""
    values = sorted(table.sample(method, variants).runs, reverse=True)
    return " · ".join(form(float(value), "score") for value in values)


def _why(kept: float, ranked: bool | None, scores: pd.DataFrame) -> str:
    """Why a method has no retention or cannot be held against random play; empty where it can."""
    if np.isfinite(kept) and ranked is not None:
        return ""
    why = why_unknown(scores)
    if ranked is None and not why.startswith("random"):
        return "fewer than two different games cannot be held against random play"
    return why


def _verdicts(frame: pd.DataFrame) -> dict[str, list[bool | None]]:
    clean = frame[frame["variant"] == CLEAN]
    random = clean.loc[clean["method"] == "random", "episode_return"]
    out: dict[str, list[bool | None]] = {}
    for (method, _), games in clean.groupby(["method", "train_seed"]):
        found = beats_random(different(games)["episode_return"], random)
        out.setdefault(str(method), []).append(found)
    return out


def _spread(name: str, got: Estimate) -> dict[str, float]:
    return {name: got.value, f"{name}_low": got.low, f"{name}_high": got.high}


def comparisons(episodes: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Every pair of methods on every variant and on their mean: differences over whole runs."""
    table = played(episodes)
    variants = main_variants(table.scores)
    places = {v: [v] for v in ([CLEAN] if CLEAN in table.scores else []) + variants}
    places |= {ALL: variants} if variants else {}
    pairs = list(combinations(methods, 2))
    if len(methods) > MOST_COMPARED:
        pairs = [(methods[0], m) for m in methods[1:]]
    rows = []
    for a, b in pairs:
        for place, names in places.items():
            x, y = table.sample(b, names), table.sample(a, names)
            if not len(x.runs) or not len(y.runs):
                continue
            gap = difference(x, y)
            chance = probability_of_improvement(x.runs, y.runs)
            rows.append(
                {
                    "method": b,
                    "against": a,
                    "variant": place,
                    "n_seeds": min(gap.n_first, gap.n_second),
                    "difference": gap.value,
                    "difference_low": gap.low,
                    "difference_high": gap.high,
                    "improvement": chance.value if chance.n_seeds > 1 else np.nan,
                    "improvement_low": chance.low,
                    "improvement_high": chance.high,
                }
            )
    return pd.DataFrame(rows)


def share(value: float) -> str:
    """A percentage as the tables write it."""
    return form(value, "share")


def headline(row: pd.Series, gaps: pd.DataFrame, random_clean: float) -> str:
    """The sentence a reader should remember about one method."""
    seeds = f"{int(row['n_seeds'])} seed{'s' if row['n_seeds'] != 1 else ''}"
    if not np.isfinite(row["clean"]):
        return f"was not evaluated on the clean game ({seeds}), so its gap is unknown."
    if row["ranked"] is False:
        return (
            f"is not better than random play on the clean game ({row['clean']:.1f} against "
            f"{random_clean:.1f} points; {int(row['beat_random'])} of {seeds} beat it): it is not "
            "ranked, and its gap says nothing about generalization."
        )
    played_ = f"scores {row['clean']:.1f} on the clean game ({seeds})"
    own = gaps[(gaps["method"] == row["method"]) & (gaps["variant"] != CLEAN)]
    own = own[own["variant"].isin(main_labels(own["variant"]))]
    if own.empty:
        return f"{played_} and was evaluated on no variant yet."
    if row["ranked"] is None or not np.isfinite(row["retention"]):
        worst = own.loc[own["gap"].idxmax()] if own["gap"].notna().any() else own.iloc[0]
        return (
            f"{played_} and {worst['score']:.1f} on {worst['variant']}, its worst variant; what "
            f"share of its learning survives is unknown because {row['why']}."
        )
    spread = ""
    if np.isfinite(row["score_low"]):
        spread = f" [{form(row['score_low'], 'score')}, {form(row['score_high'], 'score')}]"
    text = (
        f"{played_} and {form(row['score'], 'score')}{spread} on the variants, "
        f"{share(row['retention'])} of what it learned"
    )
    kept = own[own["score"].notna()]
    if len(kept) > 1:
        best, worst = kept.loc[kept["score"].idxmax()], kept.loc[kept["score"].idxmin()]
        text += (
            f": best on {best['variant']} ({form(best['score'], 'score')}), "
            f"worst on {worst['variant']} ({form(worst['score'], 'score')})"
        )
    return text + "." + failed_runs(row)


def failed_runs(row: pd.Series) -> str:
    """How many of a method's runs never learned; nothing where all did."""
    if not row["failed"]:
        return ""
    runs = int(row["n_seeds"])
    return (
        f" {int(row['failed'])} of {runs} runs failed: no better than random play on the clean "
        "game."
    )


def verdict(summary: pd.DataFrame) -> str:
    """The first sentence of the report, over all methods."""
    if summary.empty:
        return "Nothing has been evaluated yet: there are learning curves but no scores."
    ranked = summary[summary["order"].notna()].sort_values("order")
    poor = int(sum(r is False for r in summary["ranked"]))
    if ranked.empty and poor == len(summary):
        none = {1: "The only method is not", 2: "Neither method is"}.get(
            poor, f"None of the {poor} methods is"
        )
        return f"{none} better than random play: nothing here speaks about generalization yet."
    if ranked.empty:
        return "No method can be ranked yet; below it is said why."
    best = ranked.iloc[0]
    text = f"On the variants {best['method']} scores {form(best['score'], 'score')}"
    if len(ranked) > 1:
        second = ranked.iloc[1]
        text += f", {second['method']} {form(second['score'], 'score')}"
        if best["score_low"] > second["score_high"]:
            text += "."
        elif pd.notna(best["score_low"]) and pd.notna(second["score_high"]):
            text += "; their intervals overlap, so the order may change with more seeds."
        else:
            text += "; not both have an interval, so this is no ranking."
    else:
        text += "."
    if poor:
        text += f" {poor} other{'s are' if poor > 1 else ' is'} no better than random."
    return text


def against_plain(compared: pd.DataFrame, plain: str) -> str:
    """Which differences to the plain agent, on the mean of the variants, may not be chance."""
    if compared.empty:
        return ""
    rows = compared[(compared["variant"] == ALL) & compared["difference_low"].notna()]
    found: list[tuple[str, list[float]]] = []  # name, difference with its interval
    for _, row in rows[(rows["method"] == plain) | (rows["against"] == plain)].iterrows():
        numbers = [float(row[f"difference{end}"]) for end in ("", "_low", "_high")]
        if row["method"] == plain:  # seen from the other side
            found.append((str(row["against"]), [-numbers[0], -numbers[2], -numbers[1]]))
        else:
            found.append((str(row["method"]), numbers))
    if not found:
        return ""
    clear = [(name, n) for name, n in found if n[1] > 0 or n[2] < 0]
    if not clear:
        return f"On the mean of the variants no difference to {plain} is clear of 0."
    parts = []
    for name, numbers in sorted(clear, key=lambda item: -item[1][0]):
        value, low, high = (form(number, "score") for number in numbers)
        parts.append(f"{name} {'+' if numbers[0] > 0 else ''}{value} [{low}, {high}]")
    text = f"Points against {plain} on the mean of the variants: {', '.join(parts)}"
    if others := len(found) - len(clear):
        text += f"; of {others} more the interval includes 0"
    return text + (" (not corrected for their number)." if len(found) > 1 else ".")
