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
NOT_RUN = "Announced in [the protocol](protocol.md), and not run yet."
FIT = "train/cross_entropy"  # to the labels of the scripted player


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
    if not (RESULTS / "finetune").is_dir():
        return NOT_RUN
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
    if not (RESULTS / "initialisation").is_dir():
        return NOT_RUN
    heads = (
        "`encoder.init`",
        "cross-entropy to the labels, halfway",
        "at the end",
        "points, clean",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * 4 + "|"]
    for name, called in INITS.items():
        folders = sorted((RESULTS / "initialisation").glob(f"{name}_s*"))
        fits = _fits(name)
        means = [clean_points(folder) for folder in folders]
        cells = [" / ".join(f"{fit[i]:.2f}" for fit in fits) for i in (0, 1)]
        cells.append(" / ".join(f"{x:.0f}" for x in means))
        lines.append(f"| `{name}` ({called}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def decided() -> tuple[str, str]:
    """Whether the first weights decide how well the labels are fitted halfway, and by what."""
    if not (RESULTS / "initialisation").is_dir():
        return "not tested", ""
    halfway = {name: Sample(np.array([c[0] for c in _fits(name)])) for name in INITS}
    found = {name: difference(halfway[name], halfway["sb3"]) for name in INITS if name != "sb3"}
    clear = [name for name, gap in found.items() if gap.low > 0 or gap.high < 0]
    words = "; ".join(
        f"{INITS[name]} {gap.value:+.2f} [{gap.low:.2f}, {gap.high:.2f}]"
        for name, gap in found.items()
    )
    told = f"cross-entropy halfway through imitation, against SB3's weights: {words}"
    return ("held" if clear else "undecided"), told


def _fits(init: str) -> list[tuple[float, float]]:
    """How well each run fitted its labels, halfway and at the end."""
    found = []
    for folder in sorted((RESULTS / "initialisation").glob(f"{init}_s*")):
        curve = pd.read_csv(folder / "metrics.csv")[FIT].dropna()
        found.append((curve.iloc[len(curve) // 2 - 1], curve.iloc[-1]))
    return found


def clean_points(folder: Path) -> float:
    """Mean points of a run's games on the clean game."""
    games_ = pd.read_csv(folder / "evaluation" / "episodes.csv")
    return float(games_.loc[games_["variant"] == CLEAN, "episode_return"].mean())


TABLES = {"retrained": retrained, "first weights": first_weights}
