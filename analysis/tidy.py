"""Reads measured CSV files row by row: bad rows are counted in a warning, good ones are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from reprl.analysis.naming import is_baseline

# Columns each file must have, and those of them that must be numbers.
REQUIRED = {
    "episodes": ["run", "method", "train_seed", "variant", "episode_return"],
    "twin": ["run", "method", "train_seed", "variant", "step_in_game"],
    "attention": ["run", "method", "train_seed", "variant", "object", "metric", "value"],
}
NUMBERS = {
    "episodes": ["episode_return"],
    "twin": ["step_in_game"],
    "attention": ["value"],
}
MEASURES = {
    "js": "policy change (JS divergence, nats)",
    "flip": "greedy action flipped (share of steps)",
    "value_error": "value error (absolute)",
    "feature_distance": "feature distance",
    "attention_shift": "attention shift",
}
OPTIONAL = {"attention": ["low", "high", "chance", "n_frames"], "twin": list(MEASURES)}
SAME_GAME = [
    "run",
    "method",
    "step",
    "variant",
    "severity",
    "episode",
    "eval_seed",
    "deterministic",
]


def read_table(path: Path, kind: str, warnings: list[str]) -> pd.DataFrame | None:
    """One measured file, or None with a warning if nothing in it can be used."""
    if not path.is_file():
        return None
    damaged: list[list[str]] = []

    def keep_count(row: list[str]) -> None:
        damaged.append(row)

    try:
        table = pd.read_csv(
            path, engine="python", on_bad_lines=keep_count, dtype=str, encoding_errors="replace"
        )
    except (ValueError, OSError) as error:
        warnings.append(f"{path}: cannot be read ({str(error).splitlines()[0][:120]}).")
        return None
    missing = [c for c in REQUIRED[kind] if c not in table.columns]
    if missing:
        warnings.append(f"{path}: lacks the columns {', '.join(missing)}, so it was left out.")
        return None
    for column in [*NUMBERS[kind], *OPTIONAL.get(kind, [])]:
        if column not in table.columns:
            table[column] = np.nan
        table[column] = pd.to_numeric(table[column], errors="coerce")
    table["train_seed"] = pd.to_numeric(table["train_seed"], errors="coerce").fillna(-1).astype(int)
    complete = table[["run", "method", "variant"]].notna().all(axis=1)
    finite = table[NUMBERS[kind]].map(np.isfinite).all(axis=1)
    bad = len(damaged) + int((~complete | ~finite).sum())
    if bad:
        warnings.append(f"{path}: {bad} damaged rows or scores that are no number were left out.")
    table = table[complete & finite].reset_index(drop=True)
    return table if len(table) else None


def tidy_episodes(episodes: pd.DataFrame, warnings: list[str]) -> pd.DataFrame:
    """Games from all files as one table: each game once, one protocol, numbers as numbers."""
    if episodes.empty:
        return pd.DataFrame(columns=REQUIRED["episodes"])
    for column in ("severity", "step", "episode", "eval_seed", "sticky", "length"):
        if column not in episodes.columns:
            episodes[column] = np.nan
        episodes[column] = pd.to_numeric(episodes[column], errors="coerce")
    for column in ("family", "end", "deterministic"):
        if column not in episodes.columns:
            episodes[column] = None
    episodes["deterministic"] = episodes["deterministic"].map(
        lambda v: str(v).lower() in ("true", "1", "1.0")
    )
    known = episodes["episode"].notna() | episodes["eval_seed"].notna()
    repeated = episodes.duplicated(SAME_GAME) & known
    episodes = episodes[~repeated].reset_index(drop=True)
    return _one_protocol(episodes, warnings)


def _one_protocol(episodes: pd.DataFrame, warnings: list[str]) -> pd.DataFrame:
    """Sampled and greedy games, or different stickiness, are not the same measurement."""
    trained = ~episodes["method"].map(is_baseline)
    protocol = list(zip(episodes["deterministic"], episodes["sticky"].fillna(0), strict=True))
    found = pd.Series(protocol, index=episodes.index)
    kinds = found[trained].value_counts()
    if len(kinds) < 2:
        return episodes
    chosen = kinds.index[0]
    words = f"{'greedy' if chosen[0] else 'sampled'} actions, sticky {chosen[1]:g}"
    warnings.append(
        f"games were played under {len(kinds)} protocols; only those with {words} are reported."
    )
    return episodes[(found == chosen) | ~trained].reset_index(drop=True)
