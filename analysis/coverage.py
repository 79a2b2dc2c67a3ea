"""Which games there are of which run, and in sentences what is missing for a fair comparison."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprl.analysis.gap import main_labels, prepare, random_scores, run_scores
from reprl.analysis.tidy import protocols
from reprl.naming import is_baseline
from reprl.schema import CLEAN

NAMED = 3  # runs or variants named in a sentence; of the others the number


def main_variants(scores: pd.DataFrame) -> list[str]:
    """The variants every trained seed was evaluated on, without the weaker severities.

    Averages over variants use only these: otherwise a method could win by skipping a hard one.
    """
    trained = _trained(scores)
    shared = [str(v) for v in scores.columns if v != CLEAN and trained[v].notna().all()]
    return main_labels(shared)


def with_random(variants: list[str], scores: pd.DataFrame) -> list[str]:
    """Those of the variants on which random play was measured: only they have a retention."""
    random = random_scores(scores)
    return [v for v in variants if np.isfinite(random.get(v, np.nan))]


def why_unknown(scores: pd.DataFrame) -> str:
    """Why nobody can say what share of what was learned survives, as the end of a sentence."""
    if not np.isfinite(random_scores(scores).get(CLEAN, np.nan)):
        return "random play was not measured on the clean game"
    if not main_variants(scores):
        return "no variant was played by every run"
    if not with_random(main_variants(scores), scores):
        return "random play was not measured on the variants"
    return "too little was learned"


def notes(episodes: pd.DataFrame) -> list[str]:
    """A sentence for everything that makes the games of the runs uneven."""
    if episodes.empty:
        return []
    frame = prepare(episodes)
    trained = frame[~frame["method"].map(is_baseline)]
    scores = run_scores(episodes)
    found = [_uneven(trained), *_left_out(trained, scores), _without_random(scores)]
    return [sentence for sentence in [*found, _copies(trained)] if sentence]


def _trained(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[[not is_baseline(m) for m in scores.index.get_level_values("method")]]


def _uneven(trained: pd.DataFrame) -> str:
    sizes = sorted(set(trained.groupby(["run", "variant"]).size()))
    if len(sizes) < 2:
        return ""
    return (
        f"runs were evaluated on between {sizes[0]} and {sizes[-1]} games a "
        "variant: each run's mean counts equally, whatever its number of games."
    )


def _left_out(trained: pd.DataFrame, scores: pd.DataFrame) -> list[str]:
    """Variants that not every run has played, with the runs that have not."""
    shared = {CLEAN, *main_variants(scores)}
    runs = list(dict.fromkeys(trained["run"]))
    sentences = []
    for variant in main_labels(dict.fromkeys(trained["variant"])):
        played = set(trained.loc[trained["variant"] == variant, "run"])
        lacking = [run for run in runs if run not in played]
        if lacking and (variant == CLEAN or variant not in shared):
            effect = "their gaps are unknown" if variant == CLEAN else "averages leave it out"
            sentences.append(f"{variant} was not played by {_names(lacking)}: {effect}.")
    return sentences


def _without_random(scores: pd.DataFrame) -> str:
    random = random_scores(scores)
    wanted = [CLEAN, *main_variants(scores)]
    lacking = [v for v in wanted if not np.isfinite(random.get(v, np.nan))]
    if not lacking:
        return ""
    if len(lacking) == len(wanted) or CLEAN in lacking:
        where = "" if random.isna().all() else f" on {_names(lacking)}"
        return (
            f"the random player was not measured{where}, so retention is unknown: "
            "reprl evaluate measures it along with the runs."
        )
    return (
        f"the random player was not measured on {_names(lacking)}: retention there is unknown, "
        "and its averages leave them out."
    )


def _copies(trained: pd.DataFrame) -> str:
    """Greedy agents may repeat one game: how few different ones there are."""
    greedy = trained[_greedy(trained)]
    if greedy.empty:
        return ""
    counts = [(len(different(g)), len(g)) for _, g in greedy.groupby(["run", "variant"])]
    fewest, of = min(counts, key=lambda count: count[0] / count[1])
    if fewest == of:
        return ""
    return (
        f"greedy actions repeat games: of {of} games a variant as few as {fewest} differ in "
        "score or length, and only different ones count as evidence against random play."
    )


def different(games: pd.DataFrame) -> pd.DataFrame:
    """Games that differ: equal score and length of greedy play means the same game again."""
    if not _greedy(games).all():
        return games
    return games.drop_duplicates([c for c in ("episode_return", "length") if c in games])


def _greedy(games: pd.DataFrame) -> pd.Series:
    return protocols(games).map(lambda protocol: bool(protocol[0])).astype(bool)


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
