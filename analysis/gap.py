"""The generalization gap: from one row per evaluated game to one row per method and variant."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from reprl.analysis.stats import (
    Estimate,
    estimate,
    gap_estimate,
    mean,
    retention_estimate,
)
from reprl.analysis.tidy import protocols
from reprl.errors import UserError
from reprl.naming import curve_of, is_baseline, variant_label
from reprl.schema import CLEAN, EPISODES, GAP


def prepare(episodes: pd.DataFrame) -> pd.DataFrame:
    """The games that count: finite scores of each run's last evaluated step, variants labelled.

    A variant keeps its plain name at its usual severity and is `name@severity` at any other; one
    that is not known here has no usual severity.
    """
    missing = [c for c in EPISODES.needed if c not in episodes.columns]
    if missing:
        raise UserError(f"the episodes table lacks the columns {', '.join(missing)}.")
    _require_one_protocol(episodes)
    frame = episodes.copy()
    for column in ("episode_return", "train_seed"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce")
        frame = frame[np.isfinite(frame[column])]
    frame["train_seed"] = frame["train_seed"].astype(int)
    if "step" in frame.columns:
        step = pd.to_numeric(frame["step"], errors="coerce").fillna(0)
        own = [frame[key] for key in ("method", "run", "train_seed")]
        frame = frame[step == step.groupby(own).transform("max")]
    for column in ("family", "severity"):
        if column not in frame.columns:
            frame[column] = None
    frame["severity"] = pd.to_numeric(frame["severity"], errors="coerce")
    frame["variant"] = frame["variant"].astype(str)
    frame["curve"] = frame["variant"].map(curve_of)
    levels = frame["severity"].astype(object).where(frame["severity"].notna(), None)
    pairs = list(zip(frame["variant"], levels, strict=True))
    labels = {pair: variant_label(*pair) for pair in dict.fromkeys(pairs)}
    frame["variant"] = [labels[pair] for pair in pairs]
    return frame


def _require_one_protocol(episodes: pd.DataFrame) -> None:
    """Greedy and sampled games, or games of different stickiness, have no common mean."""
    found = protocols(episodes)
    trained = ~episodes["method"].map(is_baseline)
    if found[trained].nunique() > 1 or found.map(lambda p: p[1]).nunique() > 1:
        raise UserError(
            "the episodes table mixes protocols: choose the rows of one `deterministic` and one "
            "`sticky` first."
        )


def main_labels(labels: Iterable[str]) -> list[str]:
    """One label per variant: its usual severity, or the strongest where that was not played."""
    chosen: dict[str, str] = {}
    for label in labels:
        base = curve_of(label)
        held = chosen.get(base)
        if held is None or label == base or ("@" in held and _strength(held) < _strength(label)):
            chosen[base] = label
    return list(chosen.values())


def _strength(label: str) -> float:
    try:
        return float(label.partition("@")[2])
    except ValueError:  # a name that only looks like one with a severity
        return 0.0


def run_scores(episodes: pd.DataFrame) -> pd.DataFrame:
    """The mean score of every trained seed (rows: method, train_seed) on every variant (columns).

    Runs that share method and seed are the same experiment twice and are averaged.
    """
    frame = prepare(episodes)
    table = frame.pivot_table(
        index=["method", "train_seed"], columns="variant", values="episode_return", aggfunc="mean"
    )
    order = [CLEAN, *(v for v in dict.fromkeys(frame["variant"]) if v != CLEAN)]
    methods = sorted(dict.fromkeys(frame["method"]), key=is_baseline)  # stable: trained ones first
    return table.reindex(columns=[v for v in order if v in table]).reindex(methods, level="method")


def random_scores(scores: pd.DataFrame) -> pd.Series:
    """The random player's score per variant, from run_scores(); NaN where it was not measured."""
    if "random" not in scores.index.get_level_values("method"):
        return pd.Series(np.nan, index=scores.columns)
    return pd.Series(scores.loc[["random"]].mean(axis=0))


def score_estimates(episodes: pd.DataFrame) -> pd.DataFrame:
    """Mean score per method and variant: method, variant, n_seeds, score, low, high, episodes."""
    scores = run_scores(episodes)
    counts = prepare(episodes).groupby(["method", "variant"]).size()
    rows = []
    for method, part in scores.groupby(level="method", sort=False):
        for variant in part.columns[part.notna().any()]:
            got = estimate(mean, part[variant].to_numpy())
            count = counts.to_dict()[(method, variant)]
            rows.append((method, variant, got.n_seeds, got.value, got.low, got.high, count))
    columns = ["method", "variant", "n_seeds", "score", "low", "high", "episodes"]
    return pd.DataFrame(rows, columns=columns)


def generalization_gap(episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per method and variant: score, gap to the clean game, share of learning retained.

    Intervals are over whole training runs and NaN with a single one; retention is NaN where the
    random player was not measured or clean play is less than one point above it.
    """
    scores = run_scores(episodes)
    random = random_scores(scores)
    rows = []
    for method, part in scores.groupby(level="method", sort=False):
        for variant in part.columns[part.notna().any()]:
            rows.append((method, variant, *_gap_row(part, variant, random)))
    return pd.DataFrame(rows, columns=list(GAP))


def _gap_row(part: pd.DataFrame, variant: str, random: pd.Series) -> tuple[float, ...]:
    score = part[variant].to_numpy(float)  # (R,)
    clean = part[CLEAN].to_numpy(float) if CLEAN in part.columns else np.full(len(part), np.nan)
    both = np.isfinite(score) & np.isfinite(clean)
    if not both.any():
        known = score[np.isfinite(score)]
        return len(known), float(known.mean()), *[np.nan] * 7
    score, clean = score[both], clean[both]
    gap = gap_estimate(clean, score)
    kept = Estimate(np.nan, np.nan, np.nan, gap.n_seeds)
    if np.isfinite([random.get(CLEAN, np.nan), random.get(variant, np.nan)]).all():
        kept = retention_estimate(clean, score, float(random[CLEAN]), float(random[variant]))
    return (
        gap.n_seeds,
        float(score.mean()),
        float(clean.mean()),
        gap.value,
        gap.low,
        gap.high,
        kept.value,
        kept.low,
        kept.high,
    )
