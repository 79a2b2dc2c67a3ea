"""How training begins, for docs/results.md: from nothing or from an agent, with which weights.

results/finetune (runs on a variant, from nothing and from an agent of the clean game) and
results/initialisation -> the tables that `benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.stats import Sample
from reprl.schema import CLEAN

RESULTS = Path(__file__).parent.parent / "results"
ARMS = {"scratch": "from nothing", "tuned": "from an agent of the clean game"}
VARIANTS = ("green_lines", "diagonals")
INITS = {"sb3": "SB3's: orthogonal", "xavier": "Xavier", "he": "He"}
LEARNED = ("cross-entropy to the labels", "train/cross_entropy")


@lru_cache(maxsize=1)
def games() -> pd.DataFrame:
    """Every game of both arms, with the arm and the variant that its agent learned on."""
    found = []
    for file in sorted((RESULTS / "finetune").glob("*/evaluation/episodes.csv")):
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


def first_weights() -> str:
    """How well imitation fits its labels, and plays, by the weights that it began with."""
    words, column = LEARNED
    head = f"| `encoder.init` | {words}, in the middle | at the end | points on the clean game |"
    lines = [head, "|---" * 4 + "|"]
    for name, called in INITS.items():
        folders = sorted((RESULTS / "initialisation").glob(f"{name}_s*"))
        curves = [pd.read_csv(folder / "metrics.csv")[column].dropna() for folder in folders]
        means = [mean_points(folder) for folder in folders]
        cells = [
            " / ".join(f"{curve.iloc[row]:.2f}" for curve in curves)
            for row in (len(curves[0]) // 2 - 1, -1)
        ]
        cells.append(" / ".join(f"{x:.0f}" for x in means))
        lines.append(f"| `{name}` ({called}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mean_points(folder: Path) -> float:
    """Mean points of a run's games."""
    return float(pd.read_csv(folder / "evaluation" / "episodes.csv")["episode_return"].mean())


TABLES = {"retrained": retrained, "first weights": first_weights}
