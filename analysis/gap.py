"""The generalization gap: from one row per evaluated game to one row per method and variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from reprl.analysis.stats import (
    UNKNOWN,
    Estimate,
    Reference,
    Sample,
    mean_estimate,
    retention_estimate,
)
from reprl.analysis.tidy import protocols
from reprl.envs.games import Game
from reprl.errors import UserError
from reprl.game_seeds import shared_seeds
from reprl.naming import curve_of, is_baseline, variant_label
from reprl.schema import CLEAN, EPISODES, GAP

SCALE = "score_scale"  # a column that a report's table has in memory


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
    frame["game"] = _games(frame)
    return frame


def _games(frame: pd.DataFrame) -> list[str]:
    """Which game each row is of: rows that do not say so are each a game of their own."""
    seeds = shared_seeds(frame)
    if "game_seed" in frame.columns:
        known = frame["game_seed"].notna()
        seeds = frame["game_seed"].where(known, seeds)
    return [
        f"row {i}" if str(seed) == "-1" else str(seed)
        for i, seed in zip(frame.index, seeds, strict=True)
    ]


def _require_one_protocol(episodes: pd.DataFrame) -> None:
    """Greedy and sampled games, or games of different stickiness, have no common mean."""
    found = protocols(episodes)
    trained = ~episodes["method"].map(is_baseline)
    if found[trained].nunique() > 1 or found.map(lambda p: p[1]).nunique() > 1:
        raise UserError(
            "the episodes table mixes protocols: choose the rows of one `deterministic`, one "
            "`sticky` and one rule of games (own or shared) first."
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


@dataclass(frozen=True)
class Played:
    """The scores of a table, run by run and game by game: what every estimate is made from."""

    scores: pd.DataFrame  # run_scores(): (method, train_seed) x variant
    cells: pd.DataFrame  # (method, train_seed, game) x variant
    lowest: float  # what a score cannot be below, -inf where that is not known
    scale: float = 1.0  # points above random play below which nothing was learned

    def methods(self) -> list[str]:
        return [str(m) for m in dict.fromkeys(self.scores.index.get_level_values("method"))]

    def variants(self, method: str) -> list[str]:
        """The variants a method was played on."""
        part = self.scores.loc[[method]]
        return [str(v) for v in part.columns[part.notna().any()]]

    def of_seeds(self, seeds: Iterable[int]) -> Played:
        """The same of some training seeds only."""
        wanted = list(seeds)
        kept = [
            frame[frame.index.get_level_values("train_seed").isin(wanted)]
            for frame in (self.scores, self.cells)
        ]
        return replace(self, scores=kept[0], cells=kept[1])

    def samples(self, method: str, *weights: Mapping[str, float]) -> list[Sample]:
        """For each weighting of variants one number per run, all of the runs that have them all.

        Games are kept where at least two of them were played by all of these runs on all of these
        variants: then their luck is common to the runs.
        """
        names = list(dict.fromkeys(v for weighting in weights for v in weighting))
        part = self.scores.loc[[method]].droplevel("method").reindex(columns=names).dropna()
        runs = [_weighted(part, weighting) for weighting in weights]
        games = self.cells.loc[[method]].droplevel("method").reindex(columns=names).dropna()
        table = games.loc[games.index.get_level_values("train_seed").isin(part.index)]
        counts = table.groupby(level="game").size()
        common = counts.index[counts == len(part)]
        if len(part) < 2 or len(common) < 2:
            return [Sample(values.to_numpy(float)) for values in runs]
        table = table[table.index.get_level_values("game").isin(common)]
        found = []
        for values, weighting in zip(runs, weights, strict=True):
            grid = _weighted(table, weighting).unstack("game").loc[part.index]  # (R, J)
            ids = tuple(grid.columns)
            found.append(Sample(values.to_numpy(float), grid.to_numpy(float), ids))
        return found

    def sample(self, method: str, variants: Iterable[str]) -> Sample:
        """The mean over variants, per run."""
        names = list(variants)
        return self.samples(method, {v: 1 / len(names) for v in names})[0]

    def reference(self, weights: Mapping[str, float]) -> Reference:
        """Random play on a weighting of variants and on the clean game, with its games."""
        random = random_scores(self.scores)
        value = sum(w * float(random.get(v, np.nan)) for v, w in weights.items())
        clean = float(random.get(CLEAN, np.nan))
        names = list(dict.fromkeys([*weights, CLEAN]))
        if not np.isfinite([value, clean]).all():
            return Reference(value, clean)
        games = self.cells.loc[["random"]].groupby(level="game").mean()
        games = games.reindex(columns=names).dropna()
        pairs = np.column_stack([_weighted(games, weights), games[CLEAN]])  # (K, 2)
        return Reference(value, clean, pairs.astype(float) if len(pairs) > 1 else None)

    def retention(self, method: str, weights: Mapping[str, float]) -> Estimate:
        """Retention of a weighting of variants (weights of sum 1), cut at what is possible."""
        if CLEAN not in self.scores.columns or not weights:
            return UNKNOWN
        score, clean = self.samples(method, weights, {CLEAN: 1.0})
        random = self.reference(weights)
        got = retention_estimate(clean, score, random, scale=self.scale)
        if not np.isfinite(got.value):
            return got
        return got.cut((self.lowest - random.score) / (clean.value - random.clean))


def _weighted(table: pd.DataFrame, weights: Mapping[str, float]) -> pd.Series:
    return pd.Series(table[list(weights)].to_numpy(float) @ list(weights.values()), table.index)


def played(episodes: pd.DataFrame) -> Played:
    """The table's scores by run and by game."""
    frame = prepare(episodes)
    keys = ["method", "train_seed", "game"]
    cells = frame.pivot_table(
        index=keys, columns="variant", values="episode_return", aggfunc="mean"
    )
    # Points are counted from 0 in nearly every game; where one ended below, there is no limit.
    lowest = 0.0 if (frame["episode_return"] >= 0).all() else -np.inf
    return Played(run_scores(episodes), cells, lowest, score_scale(episodes))


def score_scale(episodes: pd.DataFrame) -> float:
    """The `Game.score_scale` of the game a table is of; a point where nobody has said."""
    return float(episodes[SCALE].max()) if SCALE in episodes.columns else Game.score_scale


def score_estimates(episodes: pd.DataFrame) -> pd.DataFrame:
    """Mean score per method and variant: method, variant, n_seeds, score, low, high, episodes."""
    table = played(episodes)
    counts = prepare(episodes).groupby(["method", "variant"]).size().to_dict()
    rows = []
    for method in table.methods():
        for variant in table.variants(method):
            got = mean_estimate(table.sample(method, [variant])).cut(table.lowest)
            count = counts[(method, variant)]
            rows.append((method, variant, got.n_seeds, got.value, got.low, got.high, count))
    columns = ["method", "variant", "n_seeds", "score", "low", "high", "episodes"]
    return pd.DataFrame(rows, columns=columns)


def generalization_gap(episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per method and variant: score, gap to the clean game, share of learning retained.

    Intervals are over whole training runs and NaN with a single one; retention is NaN where the
    random player was not measured or clean play is less than the game's score scale above it.
    """
    table = played(episodes)
    rows = [
        (method, variant, *_gap_row(table, method, variant))
        for method in table.methods()
        for variant in table.variants(method)
    ]
    return pd.DataFrame(rows, columns=list(GAP))


def _gap_row(table: Played, method: str, variant: str) -> tuple[float, ...]:
    weights = {variant: 1.0}
    score = table.samples(method, weights)[0]
    if CLEAN in table.scores.columns:
        both = table.samples(method, weights, {CLEAN: 1.0})
        if len(both[0].runs):
            score, clean = both
            gap = mean_estimate(clean.minus(score))
            kept = table.retention(method, weights)
            values = (gap.value, gap.low, gap.high, kept.value, kept.low, kept.high)
            return gap.n_seeds, score.value, clean.value, *values
    return len(score.runs), score.value, *[np.nan] * 7
