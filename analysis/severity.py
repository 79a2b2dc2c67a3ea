"""How scores fall as a variant grows stronger, and which variants can tell methods apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from reprl.analysis.gap import Played, played, prepare, random_scores, run_scores, score_scale
from reprl.analysis.stats import Array, mean_estimate, retention
from reprl.analysis.tables import form
from reprl.naming import PERSON, is_baseline
from reprl.schema import CLEAN

TOO_EASY = 0.9  # a plain agent keeps at least this share of what it learned
TOO_HARD = 0.1  # even the best agent reaches less than this share
RULE = (
    f"Too easy: a plain agent trained on the clean game keeps at least {form(TOO_EASY, 'share')} "
    "of what it learned. Too hard: even the best agent (one trained on the variant, where there is "
    f"one) reaches less than {form(TOO_HARD, 'share')} of it; for anyone, if a person who played "
    "it does not either. Informative: everything between. "
    "Both shares are of what the plain agent learned on the clean game, so the best agent's "
    "differs from its retention, which is of what it learned itself."
)


def curve_points(episodes: pd.DataFrame) -> dict[str, list[tuple[float, str]]]:
    """Per variant with several severities: (severity, variant label), from 0 = the clean game."""
    frame = prepare(episodes)
    points: dict[str, list[tuple[float, str]]] = {}
    known = frame[frame["severity"].notna() & (frame["variant"] != CLEAN)]
    for curve, part in known.groupby("curve"):
        levels = part.drop_duplicates("severity").sort_values("severity")
        if len(levels) < 2:
            continue
        found = [
            (float(s), str(v)) for s, v in zip(levels["severity"], levels["variant"], strict=True)
        ]
        if found[0][0] > 0 and CLEAN in set(frame["variant"]):
            found.insert(0, (0.0, CLEAN))
        points[str(curve)] = found
    return points


def severity_curves(episodes: pd.DataFrame) -> pd.DataFrame:
    """method, curve, severity, n_seeds, score, low, high: one row per point of each curve."""
    table = played(episodes)
    rows = []
    for curve, points in curve_points(episodes).items():
        for method in table.methods():
            known = table.variants(method)
            for severity, variant in points:
                if variant in known:
                    got = mean_estimate(table.sample(method, [variant])).cut(table.lowest)
                    row = (method, curve, severity, got.n_seeds, got.value, got.low, got.high)
                    rows.append(row)
    columns = ["method", "curve", "severity", "n_seeds", "score", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def severity_areas(episodes: pd.DataFrame) -> pd.DataFrame:
    """Area under each severity curve, divided by the range of severities.

    `area` is thus the mean score over all severities, `retention_area` the mean retention; both
    are computed per whole run, so their intervals respect that one run supplies the whole curve.
    """
    table = played(episodes)
    rows = []
    for curve, points in curve_points(episodes).items():
        weights = area_weights([p[0] for p in points], [p[1] for p in points])
        for method in table.methods():
            got = mean_estimate(table.samples(method, weights)[0]).cut(table.lowest)
            if not got.n_seeds:
                continue
            kept = _retention_area(table, method, weights)
            rows.append((method, curve, got.n_seeds, got.value, got.low, got.high, *kept))
    names = ["area", "area_low", "area_high"]
    columns = ["method", "curve", "n_seeds", *names, *(f"retention_{n}" for n in names)]
    return pd.DataFrame(rows, columns=columns)


def area_weights(x: Iterable[float], labels: Iterable[str]) -> dict[str, float]:
    """The area under straight lines through (x, y) over the range of x, as weights of the y."""
    at = np.array(list(x))
    widths = np.diff(at) / (at[-1] - at[0])
    weights: Array = (np.append(widths, 0.0) + np.append(0.0, widths)) / 2
    return dict(zip(labels, map(float, weights), strict=True))


def _retention_area(
    table: Played, method: str, weights: Mapping[str, float]
) -> tuple[float, float, float]:
    if next(iter(weights)) != CLEAN:
        return np.nan, np.nan, np.nan
    got = table.retention(method, weights)
    return got.value, got.low, got.high


def difficulty(
    episodes: pd.DataFrame,
    plain: Iterable[str] = (),
    trained_on: Mapping[str, Iterable[str]] | None = None,
) -> pd.DataFrame:
    """Label every variant too easy, informative or too hard by RULE.

    `plain` names the methods without any extra trained on the clean game; `trained_on` gives the
    variants each method was trained on. Shares are of what the plain agent learned on the clean
    game: (score - random on the variant) / (plain clean - random clean).
    """
    trained = {m: set(v) for m, v in (trained_on or {}).items()}
    scores = run_scores(episodes)
    random, scale = random_scores(scores), score_scale(episodes)
    means = scores.groupby(level="method").mean()  # (M, V)
    agents = [m for m in means.index if not is_baseline(m)]
    people = [m for m in means.index if m == PERSON]
    plain = [m for m in plain if m in agents]
    clean = means.reindex(plain)[CLEAN].mean() if plain and CLEAN in means else np.nan
    rows = []
    for variant in [v for v in means.columns if v != CLEAN]:
        specialists = [m for m in agents if variant in trained.get(m, ())]
        plain_score = means.reindex(plain)[variant].mean() if plain else np.nan
        best_of = specialists or agents
        reached = means.loc[best_of, variant].dropna()
        best = reached.max()
        specialist = means.loc[specialists, variant].max() if specialists else np.nan
        kept, reach = retention(
            [plain_score, best], clean, random[variant], random.get(CLEAN, np.nan), scale
        )
        by_hand = means.loc[people, variant].max() if people else np.nan
        (person_share,) = retention(
            [by_hand], clean, random[variant], random.get(CLEAN, np.nan), scale
        )
        label = _label(kept, reach)
        if label == "too hard" and np.isfinite(person_share):
            label += " for anyone" if person_share < TOO_HARD else " for agents"
        who = str(reached.idxmax()) if len(reached) else None
        scores_ = (random[variant], plain_score, specialist, who, best)
        rows.append((variant, *scores_, by_hand, kept, reach, label))
    columns = ["variant", "random", "plain", "trained_on_it", "best_method", "best"]
    columns += ["person", "plain_share", "best_share", "label"]
    return pd.DataFrame(rows, columns=columns)


def _label(plain_share: float, best_share: float) -> str:
    if not np.isfinite(plain_share):
        return "unknown"
    if plain_share >= TOO_EASY:
        return "too easy"
    return "too hard" if best_share < TOO_HARD else "informative"
