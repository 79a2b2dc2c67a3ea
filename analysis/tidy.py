"""Reads measured CSV files row by row: bad rows are counted in a warning, good ones are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from reprl.errors import UserError
from reprl.escaping import shown
from reprl.game_seeds import shared_seeds
from reprl.naming import is_baseline
from reprl.schema import EPISODES, MEASURED, PARTS, SAME_GAME
from reprl.tables import Unreadable, read_text

MEASURES = {
    "js": "policy change (JS divergence, nats)",
    "flip": "greedy action flipped (share of steps)",
    "value_error": "value error (absolute)",
    "feature_distance": "feature distance",
    "attention_shift": "attention shift",
}
TRUE = ("true", "1", "1.0")
NAMES = (
    *("run", "method", *PARTS, "variant", "family", "end"),
    *("view", "player", "object", "metric", "test", "condition"),
    *("source", "layer", "label", "unit", "change"),
)


def read_table(path: Path, kind: str, warnings: list[str]) -> pd.DataFrame | None:
    """One measured file, or None with a warning if nothing in it can be used."""
    if not path.is_file():
        return None
    try:
        table, damaged = read_text(path)
    except (UserError, OSError) as error:
        reason = error.reason if isinstance(error, Unreadable) else str(error).splitlines()[0][:120]
        warnings.append(f"{path}: cannot be read ({reason}).")
        return None
    table = _named_plainly(table).replace("", np.nan)
    missing = [c for c in MEASURED[kind].needed if c not in table.columns]
    if missing:
        warnings.append(f"{path}: lacks the columns {', '.join(missing)}, so it was left out.")
        return None
    for column in [*MEASURED[kind].numbers, *MEASURED[kind].measures]:
        if column not in table.columns:
            table[column] = np.nan
        table[column] = pd.to_numeric(table[column], errors="coerce")
    player = table["method"].astype(str).map(is_baseline)
    table.loc[player & table["train_seed"].isna(), "train_seed"] = -1  # nobody trained it
    complete = table[["run", "method", "variant"]].notna().all(axis=1)
    finite = table[list(MEASURED[kind].numbers)].map(np.isfinite).all(axis=1)
    bad = damaged + int((~complete | ~finite).sum())
    if bad:
        warnings.append(f"{path}: {bad} damaged rows or scores that are no number were left out.")
    table = table[complete & finite].reset_index(drop=True)
    return table.astype({"train_seed": int}) if len(table) else None


def _named_plainly(table: pd.DataFrame) -> pd.DataFrame:
    """Names without signs that no figure and no page can hold."""
    for column in (c for c in NAMES if c in table.columns):
        table[column] = table[column].map({name: shown(name) for name in table[column].unique()})
    return table


def tidy_episodes(episodes: pd.DataFrame, warnings: list[str]) -> pd.DataFrame:
    """Games from all files as one table: each game once, one protocol, numbers as numbers."""
    if episodes.empty:
        return pd.DataFrame(columns=list(EPISODES.needed))
    for column in ("severity", "step", "episode", "eval_seed", "sticky", "length"):
        if column not in episodes.columns:
            episodes[column] = np.nan
        episodes[column] = pd.to_numeric(episodes[column], errors="coerce")
    for column in ("family", "end", "deterministic", "game_seed"):
        if column not in episodes.columns:
            episodes[column] = None
    if "game_seed" in episodes.columns:  # text: a float cannot hold its 63 bits
        seeds = episodes["game_seed"]
        episodes["game_seed"] = seeds.astype(str).where(seeds.notna(), None)
    episodes["deterministic"] = episodes["deterministic"].map(lambda v: str(v).lower() in TRUE)
    known = episodes["episode"].notna() | episodes["eval_seed"].notna()
    repeated = episodes.duplicated(["run", *SAME_GAME]) & known
    episodes = episodes[~repeated].reset_index(drop=True)
    return one_protocol(episodes, warnings)


def protocols(frame: pd.DataFrame) -> pd.Series:
    """Per row (greedy, sticky, own games); baselines are never greedy and go with either."""
    none = pd.Series(np.nan, index=frame.index)
    sticky = pd.to_numeric(frame.get("sticky", none), errors="coerce").fillna(0.0)
    greedy = frame.get("deterministic", none).map(lambda v: str(v).lower() in TRUE)
    own = own_games(frame)
    return pd.Series(list(zip(greedy, sticky, own, strict=True)), index=frame.index, dtype=object)


def own_games(frame: pd.DataFrame) -> list[bool]:
    """Per row whether the game belongs to the training seed: a shared one has the shared seed."""
    if "game_seed" not in frame.columns:
        return [False] * len(frame)
    pairs = zip(frame["game_seed"], shared_seeds(frame), strict=True)
    return [bool(pd.notna(seed)) and str(seed) != str(shared) for seed, shared in pairs]


def one_protocol(frame: pd.DataFrame, warnings: list[str], what: str = "games") -> pd.DataFrame:
    """The rows of the protocol most runs share: others are not the same measurement.

    Of random and scripted players those rows stay that share its stickiness.
    """
    if frame.empty:
        return frame
    found = protocols(frame)
    trained = ~frame["method"].map(is_baseline)
    deciding = trained if trained.any() else ~trained
    counts = frame[deciding].groupby(found[deciding])["run"].agg(["nunique", "size"])
    chosen = counts.sort_values(["nunique", "size"], kind="stable").index[-1]
    words = f"{'greedy' if chosen[0] else 'sampled'} actions, sticky {chosen[1]:g}"
    if len({protocol[2] for protocol in counts.index}) > 1:
        words += f", {'own games for each seed' if chosen[2] else 'games shared by all runs'}"
    if len(counts) > 1:
        warnings.append(
            f"{what} were played under {len(counts)} protocols; only those with {words} are "
            f"reported.{_without(frame[trained], found[trained] == chosen)}"
        )
    same = (found == chosen) | (~trained & (found.map(lambda p: p[1]) == chosen[1]))
    gone = sorted(set(frame.loc[~trained, "method"]) - set(frame.loc[same & ~trained, "method"]))
    if gone:
        warnings.append(
            f"{', '.join(gone)}: not measured at sticky {chosen[1]:g} as the runs were, so left "
            f"out (reprl evaluate DIR sticky={chosen[1]:g} measures it)."
        )
    return frame[same].reset_index(drop=True)


def _without(frame: pd.DataFrame, same: pd.Series) -> str:
    gone = sorted(set(frame["run"]) - set(frame.loc[same, "run"]))
    return f" Nothing is left of {', '.join(gone)}." if gone else ""
