"""One line per method: does it play, does it generalize, and the sentence that says so."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd

from reprl.analysis.coverage import different, main_variants, why_unknown, with_random
from reprl.analysis.gap import main_labels, prepare, random_scores, run_scores
from reprl.analysis.pairwise import (
    beats_random,
    difference,
    exact_tests,
    is_ranked,
    probability_of_improvement,
)
from reprl.analysis.stats import Array, Estimate, Statistic, estimate, iqm, mean, retention
from reprl.analysis.tables import form
from reprl.naming import is_baseline
from reprl.schema import CLEAN

ALL = "all variants"
UNKNOWN = Estimate(np.nan, np.nan, np.nan, 0)
MOST_COMPARED = 6  # methods; beyond that each is compared with the first one only


def overall(episodes: pd.DataFrame) -> pd.DataFrame:
    """Per trained method: clean score, mean score and retention over the variants, order, rank.

    Methods whose runs are mostly no better than random on the clean game have no order, and
    methods without an interval (of one seed) no rank: their place among the others is not known.
    """
    scores = run_scores(episodes)
    random = random_scores(scores)
    variants = main_variants(scores)
    known_variants = with_random(variants, scores)
    base = random.reindex([CLEAN, *known_variants]).to_numpy(float)
    verdicts = _verdicts(prepare(episodes))
    rows = []
    for method, part in scores.groupby(level="method", sort=False):
        if is_baseline(str(method)):
            continue
        clean = _column(part, CLEAN)
        known = verdicts.get(str(method), [])
        play = estimate(mean, clean)
        row: dict[str, object] = {"method": method, "n_seeds": play.n_seeds or len(part)}
        row |= _spread("clean", play)
        played = part[variants].to_numpy(float)  # (R, V)
        row |= _spread("score", estimate(mean, played) if variants else UNKNOWN)
        table = np.column_stack([clean, part[known_variants].to_numpy(float)])  # (R, 1 + V)
        kept = estimate(partial(_retention, base, mean), table)
        row |= _spread("retention", kept)
        row |= _spread("iqm", estimate(partial(_retention, base, iqm), table))
        row["beat_random"] = sum(v is True for v in known)
        row["ranked"] = is_ranked(known)
        row["why"] = _why(kept.value, is_ranked(known), scores)
        rows.append(row)
    table_ = pd.DataFrame(rows)
    if table_.empty:
        return table_
    table_["ranked"] = pd.Series([r["ranked"] for r in rows], dtype=object)  # True, False or None
    key = table_["retention"].where(table_["ranked"].map(lambda r: r is True))
    table_["order"] = key.rank(ascending=False, method="min")
    table_["rank"] = key.where(table_["retention_low"].notna()).rank(ascending=False, method="min")
    return table_


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


def _retention(base: Array, average: Statistic, rows: Array) -> float:
    """Mean or IQM over runs and variants of scores normalised by the method's clean play."""
    if rows.shape[1] < 2 or not np.isfinite(base).all():
        return float("nan")
    kept = retention(rows[:, 1:], rows[:, 0].mean(), base[1:], base[0])  # (R, V)
    return average(kept) if np.isfinite(kept).all() else float("nan")


def _spread(name: str, got: Estimate) -> dict[str, float]:
    return {name: got.value, f"{name}_low": got.low, f"{name}_high": got.high}


def _column(part: pd.DataFrame, variant: str) -> Array:
    return part[variant].to_numpy(float) if variant in part else np.full(len(part), np.nan)


def comparisons(episodes: pd.DataFrame, methods: list[str]) -> tuple[pd.DataFrame, str]:
    """Every pair of methods on every variant and on their mean, and a sentence on the tests."""
    scores = run_scores(episodes)
    variants = main_variants(scores)
    scores = scores[[CLEAN, *variants]] if CLEAN in scores else scores[variants]
    scores = scores.assign(**{ALL: scores[variants].mean(axis=1)}) if variants else scores
    pairs = list(combinations(methods, 2))
    if len(methods) > MOST_COMPARED:
        pairs = [(methods[0], m) for m in methods[1:]]
    rows, samples = [], []
    for a, b in pairs:
        for variant in scores.columns:
            column = scores[variant].dropna()
            x, y = (column[column.index.get_level_values("method") == m] for m in (b, a))
            if x.empty or y.empty:
                continue
            gap = difference(_by_seed(x), _by_seed(y))
            chance = probability_of_improvement(x, y)
            rows.append(
                {
                    "method": b,
                    "against": a,
                    "variant": variant,
                    "n_seeds": min(gap.n_first, gap.n_second),
                    "difference": gap.value,
                    "difference_low": gap.low,
                    "difference_high": gap.high,
                    "improvement": chance.value if chance.n_seeds > 1 else np.nan,
                    "improvement_low": chance.low,
                    "improvement_high": chance.high,
                }
            )
            samples.append((x.to_list(), y.to_list()))
    p_values, sentence = exact_tests(samples)
    return pd.DataFrame(rows).assign(p=p_values), sentence


def _by_seed(column: pd.Series) -> dict[int, float]:
    seeds = column.index.get_level_values("train_seed")
    return {int(seed): float(value) for seed, value in zip(seeds, column, strict=True)}


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
    played = f"scores {row['clean']:.1f} on the clean game ({seeds})"
    own = gaps[(gaps["method"] == row["method"]) & (gaps["variant"] != CLEAN)]
    own = own[own["variant"].isin(main_labels(own["variant"]))]
    if own.empty:
        return f"{played} and was evaluated on no variant yet."
    if row["ranked"] is None or not np.isfinite(row["retention"]):
        worst = own.loc[own["gap"].idxmax()] if own["gap"].notna().any() else own.iloc[0]
        return (
            f"{played} and {worst['score']:.1f} on {worst['variant']}, its worst variant; what "
            f"share of its learning survives is unknown because {row['why']}."
        )
    spread = ""
    if np.isfinite(row["retention_low"]):
        spread = f" [{share(row['retention_low'])}, {share(row['retention_high'])}]"
    text = (
        f"{played} and on the variants keeps {share(row['retention'])}{spread} of what it learned"
    )
    kept = own[own["retention"].notna()]
    if len(kept) > 1:
        best, worst = kept.loc[kept["retention"].idxmax()], kept.loc[kept["retention"].idxmin()]
        text += (
            f": best on {best['variant']} ({share(best['retention'])}), "
            f"worst on {worst['variant']} ({share(worst['retention'])})"
        )
    return text + "."


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
    text = f"On the variants {best['method']} keeps {share(best['retention'])} of what it learned"
    if len(ranked) > 1:
        second = ranked.iloc[1]
        text += f", {second['method']} {share(second['retention'])}"
        if best["retention_low"] > second["retention_high"]:
            text += "."
        elif pd.notna(best["retention_low"]) and pd.notna(second["retention_high"]):
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
