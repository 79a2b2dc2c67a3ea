"""Fine-tuning against training from scratch for docs/results.md, from results/finetune.

runs on a variant, once from nothing and once from an agent of the clean game -> the table and the
sentence that `benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.stats import Sample
from reprl.schema import CLEAN

PLACE = Path(__file__).parent.parent / "results" / "finetune"
ARMS = {"scratch": "from nothing", "tuned": "from an agent of the clean game"}
VARIANTS = ("green_lines", "diagonals")


@lru_cache(maxsize=1)
def games() -> pd.DataFrame:
    """Every game of both arms, with the arm and the variant that its agent learned on."""
    found = []
    for file in sorted(PLACE.glob("*/evaluation/episodes.csv")):
        arm, _, rest = file.parent.parent.name.partition("_")
        learned = rest.rpartition("_s")[0]
        found.append(pd.read_csv(file).assign(arm=arm, learned=learned))
    return pd.concat(found, ignore_index=True)


def points(arm: str, learned: str, variant: str) -> np.ndarray:
    """Mean points of each seed's games on a variant."""
    rows = games()
    chosen = (rows["arm"] == arm) & (rows["learned"] == learned) & (rows["variant"] == variant)
    return rows[chosen].groupby("train_seed")["episode_return"].mean().to_numpy(float)


def gained(learned: str) -> Difference:
    """By how much fine-tuning is ahead on the variant."""
    tuned, scratch = (Sample(points(arm, learned, learned)) for arm in ("tuned", "scratch"))
    return difference(tuned, scratch)


def retrained() -> str:
    """Points on the variant, and on the clean game, of both arms' agents, seed by seed."""
    places = ("it", "the clean game")
    heads = [f"{words}, on {place}" for place in places for words in ARMS.values()]
    lines = ["| learns on | " + " | ".join(heads) + " | difference on it |", "|---" * 6 + "|"]
    for learned in VARIANTS:
        cells = [
            " / ".join(f"{x:.0f}" for x in points(arm, learned, variant))
            for variant in (learned, CLEAN)
            for arm in ARMS
        ]
        ahead = gained(learned)
        cells.append(f"{ahead.value:+.0f} [{ahead.low:.0f}, {ahead.high:.0f}]")
        lines.append(f"| {learned} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


TABLES = {"retrained": retrained}
