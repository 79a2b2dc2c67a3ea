"""The declared comparison of docs/results.md, recomputed from results/imitation.

runs and games of `sweep=imitation` -> the tables that `benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reprl.analysis.claims import find_claims, judge
from reprl.analysis.gap import Played, played
from reprl.analysis.load import Results, collect
from reprl.analysis.stats import Estimate, mean_estimate
from reprl.schema import CLEAN

PLACE = Path(__file__).parent.parent / "results" / "imitation"
PUBLISHED = ["constant_rectangle", "moving_square", "green_lines", "diagonals"]
METHODS = {  # the name that runs have -> the experiment, and what the agent sees
    "imitation-nature": ("imitation", "frames"),
    "imitation-nature_background": ("imitation_background", "background"),
    "imitation-nature_adaptive": ("imitation_adaptive", "adaptive background"),
    "imitation-nature_differences": ("imitation_differences", "differences"),
    "imitation-nature-conv_21": ("imitation_conv", "mask, not taught"),
    "imitation-nature-top_k-motion_target-boxes_lines": ("imitation_taught", "mask, taught"),
}
KEPT, LOWEST = 0.8, 0.65  # of the clean score: what counts as success, and its interval's lower end


@lru_cache(maxsize=1)
def results() -> Results:
    return collect([PLACE])


@lru_cache(maxsize=1)
def table() -> Played:
    return played(results().episodes)


def methods() -> dict[str, str]:
    """The methods that were run, and what the page calls them."""
    there = table().methods()
    return {method: name for method, (_, name) in METHODS.items() if method in there}


def seeds() -> str:
    """Mean of every seed's games on every variant."""
    variants = [CLEAN, *PUBLISHED]
    lines = ["| the agent sees | " + " | ".join(variants) + " |", "|---" * 6 + "|"]
    for method, name in methods().items():
        part = table().scores.loc[method]
        cells = [" / ".join(f"{x:.0f}" for x in part[v]) for v in variants]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kept(method: str, variant: str) -> Estimate:
    """The share of what was learned that is kept on a variant."""
    return table().retention(method, {variant: 1.0})


def retention() -> str:
    """Clean score and the share kept on each published variant, with intervals over runs."""
    lines = ["| the agent sees | clean game | " + " | ".join(PUBLISHED) + " |", "|---" * 6 + "|"]
    for method, name in methods().items():
        clean = mean_estimate(table().sample(method, [CLEAN])).cut(table().lowest)
        cells = [_points(clean)] + [_percent(kept(method, v)) for v in PUBLISHED]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def claims() -> str:
    """The declared comparisons and their verdicts."""
    judged = judge(results(), find_claims([PLACE], results().warnings))
    names = methods()
    lines = ["| declared | on the mean of | seeds | difference | p (Holm) | verdict |"]
    lines.append("|---" * 6 + "|")
    for one, p, verdict in judged:
        found = one.found
        where = "the four" if one.variants == PUBLISHED else ", ".join(one.variants)
        size = f"{found.value:+.1f} [{found.low:.1f}, {found.high:.1f}]"
        shown = f"{p:.3f}" if np.isfinite(p) else ""
        count = f"{found.n_first}, {found.n_second}"
        words = f"{names[one.method]} above {names[one.baseline]}"
        lines.append(f"| {words} | {where} | {count} | {size} | {shown} | {verdict} |")
    return "\n".join(lines)


def elsewhere() -> str:
    """Mean points on the other variants, of the methods whose runs all played them."""
    scores = table().scores.drop(columns=[CLEAN, *PUBLISHED])
    found = {
        name: scores.loc[method].mean()
        for method, name in methods().items()
        if scores.loc[method].notna().any(axis=None)
    }
    shown = pd.DataFrame(found).dropna(how="all")
    lines = ["| variant | " + " | ".join(shown) + " |", "|---" * (1 + len(found)) + "|"]
    for variant, row in shown.iterrows():
        cells = ["" if np.isnan(x) else f"{x:.1f}" for x in row]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def looks() -> str:
    """How often each seed's mask peaks on ball or paddle, and how much of it lies there."""
    rows = results().attention
    lines = ["| mask | variant | peak on ball or paddle | by chance | energy, times uniform's |"]
    lines.append("|---" * 5 + "|")
    for method, name in methods().items():
        for variant in (CLEAN, "green_lines", "diagonals"):
            part = rows[(rows["method"] == method) & (rows["variant"] == variant)]
            part = part[part["object"] == "ball or paddle"].sort_values("train_seed")
            point, energy = (part[part["metric"] == m] for m in ("pointing", "energy"))
            if not len(point):
                continue
            peaks = " / ".join(f"{100 * x:.0f} %" for x in point["value"])
            times = " / ".join(f"{x:.1f}" for x in energy["value"] / energy["chance"])
            guess = f"{100 * point['chance'].mean():.1f} %"
            lines.append(f"| {name} | {variant} | {peaks} | {guess} | {times} |")
    return "\n".join(lines)


def success() -> dict[str, list[str]]:
    """The published variants on which each method keeps as much as was declared to be success."""
    return {
        name: [v for v in PUBLISHED if (e := kept(m, v)).value >= KEPT and e.low > LOWEST]
        for m, name in methods().items()
    }


def _points(found: Estimate) -> str:
    return f"{found.value:.0f} [{found.low:.0f}, {found.high:.0f}]"


def _percent(found: Estimate) -> str:
    return f"{100 * found.value:.0f} % [{100 * found.low:.0f}, {100 * found.high:.0f}]"


TABLES = {
    "declared seeds": seeds,
    "declared kept": retention,
    "declared claims": claims,
    "declared elsewhere": elsewhere,
    "declared looks": looks,
}
