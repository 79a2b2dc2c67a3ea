"""The agents that ship, for docs/results.md: what they keep, how far they react, where they look.

games, twins and looks of results/agents and results/shipped -> the tables that
`benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.beginnings_page import NOT_RUN
from benchmarks.declared_page import COLOURS, OTHER, PUBLISHED
from reprl.analysis.attention.faithfulness import CONDITIONS
from reprl.runs.agents import shipped
from reprl.schema import CLEAN

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "results" / "shipped"  # what was measured of them since
MASKED = ("imitation_mask", "imitation_where")
ROBUST = "imitation_robust"


def published_games(agent: str) -> pd.DataFrame:
    """The games that a shipped agent was published with."""
    return pd.read_csv(shipped()[agent] / "evaluation" / "episodes.csv")


def scores() -> str:
    """Mean points of every shipped agent on the clean game and the published variants."""
    lines = ["| agent | " + " | ".join([CLEAN, *PUBLISHED]) + " |", "|---" * 6 + "|"]
    for name in shipped():
        means = published_games(name).groupby("variant")["episode_return"].mean()
        cells = " | ".join(f"{means[v]:.1f}" for v in (CLEAN, *PUBLISHED))
        lines.append(f"| `agent:{name}` | {cells} |")
    return "\n".join(lines)


def elsewhere() -> str:
    """Mean points on the other variants, of the shipped agents that played them."""
    found = {}
    for name in shipped():
        means = published_games(name).groupby("variant")["episode_return"].mean()
        if len(means.drop([CLEAN, *PUBLISHED], errors="ignore")):
            found[f"`agent:{name}`"] = means.drop(PUBLISHED)
    table = pd.DataFrame(found).T
    order = [CLEAN, *table.drop(columns=CLEAN).mean().sort_values().index]
    lines = ["| agent | " + " | ".join(order) + " |", "|---" * (1 + len(order)) + "|"]
    for agent, row in table[order].iterrows():
        cells = ["" if np.isnan(x) else f"{x:.1f}" for x in row]
        lines.append(f"| {agent} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def robust() -> str:
    """What the agent of the best combination keeps, on the four drawings and on other pictures."""
    means = published_games(ROBUST).groupby("variant")["episode_return"].mean()
    random = random_points()
    kept = (means - random) / (means[CLEAN] - random)
    four, far = kept[PUBLISHED], kept[[*OTHER, *COLOURS]]
    return (
        f"`agent:{ROBUST}` makes {means[CLEAN]:.0f} points and keeps {_span(four)} of them on the "
        f"four drawings and {_span(far)} on noise, a gray background, strobing bricks and players "
        f"of other colours, the least on `{far.idxmin()}`"
    )


def random_points() -> float:
    """Mean points of random play on the clean game."""
    games = pd.read_csv(ROOT / "analysis" / "random_play.csv")
    clean = (games["game"] == "breakout") & (games["variant"] == CLEAN) & games["severity"].isna()
    return float(games.loc[clean, "episode_return"].mean())


def _span(shares: pd.Series) -> str:
    return f"{100 * shares.min():.0f} to {100 * shares.max():.0f} %"


def masks() -> str:
    """Where the masks of the shipped agents that have one look."""
    heads = "| agent | object | variant | peak on it | by chance | energy there, times a uniform "
    lines = [heads + "mask's |", "|---" * 6 + "|"]
    for name in MASKED:
        looks = pd.read_csv(shipped()[name] / "attention" / "scores.csv")
        for thing in ("ball or paddle", "distractor"):
            for variant in (CLEAN, "green_lines", "diagonals"):
                part = looks[(looks["object"] == thing) & (looks["variant"] == variant)]
                if not len(part):
                    continue
                point, energy = (part[part["metric"] == m].iloc[0] for m in ("pointing", "energy"))
                words = "what is drawn" if thing == "distractor" else thing
                lines.append(
                    f"| `agent:{name}` | {words} | {variant} | {100 * point['value']:.0f} % | "
                    f"{100 * point['chance']:.1f} % | {energy['value'] / energy['chance']:.1f} |"
                )
    return "\n".join(lines)


def twins() -> str:
    """How often the likeliest action changes when a drawing is put over the same game."""
    lines = ["| agent | " + " | ".join(PUBLISHED) + " |", "|---" * 5 + "|"]
    for name in shipped():
        steps = _measured(name, "evaluation/twin.csv")
        if len(steps):
            flips = steps.groupby("variant")["flip"].mean()
            cells = " | ".join(f"{100 * flips[v]:.0f} %" for v in PUBLISHED)
            lines.append(f"| `agent:{name}` | {cells} |")
    return "\n".join(lines) if len(lines) > 2 else NOT_RUN


def severities() -> str:
    """Mean points over how strong a drawing is."""
    lines = ["| agent | severity | " + " | ".join(PUBLISHED) + " |", "|---" * 6 + "|"]
    for name in shipped():
        games = _measured(name, "severities/episodes.csv")
        if not len(games):
            continue
        means = games.groupby(["severity", "variant"])["episode_return"].mean().unstack()
        for severity, row in means[PUBLISHED].dropna().iterrows():
            cells = " | ".join(f"{x:.0f}" for x in row)
            lines.append(f"| `agent:{name}` | {severity:g} | {cells} |")
    return "\n".join(lines) if len(lines) > 2 else NOT_RUN


def faithfulness() -> str:
    """Does the policy depend on what the mask marks, more than on other pixels?"""
    heads = ("agent", "variant", "deleted, against random pixels")
    heads += ("against the same mask elsewhere", "points, intact", "without what is marked")
    heads += ("without as much at random", "what is marked alone", "as much at random alone")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name in MASKED:
        rows = _measured(name, "attention/faithfulness.csv")
        if not len(rows):
            continue
        for variant in (CLEAN, "green_lines", "diagonals"):
            part = rows[rows["variant"] == variant].set_index(["test", "condition"])
            cells = [_gain(part.loc["deletion", order]) for order in ("random", "shifted")]
            points = part["value"]["return"]
            cells += [f"{points[condition]:.1f}" for condition in CONDITIONS]
            lines.append(f"| `agent:{name}` | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else NOT_RUN


def faithful() -> str:
    """What masked play costs both agents, in one sentence."""
    rows = pd.concat([_measured(name, "attention/faithfulness.csv") for name in MASKED])
    points = rows[rows["test"] == "return"].groupby("condition")["value"]
    low, high = points.min(), points.max()
    gone, random, alone = "attended removed", "random removed", "attended only"
    assert high[gone] < low[random]
    deleted = rows[(rows["test"] == "deletion") & rows["advantage"].notna()]
    assert deleted["advantage_low"].gt(0).all()
    return (
        f"Without the pixels that their masks mark both agents score at most {high[gone]:.1f} "
        f"points, without as many random ones {low[random]:.0f} to {high[random]:.0f}, with the "
        f"marked ones alone {low[alone]:.0f} to {high[alone]:.0f}: the policies depend on what is "
        "marked"
    )


def _gain(row: pd.Series) -> str:
    ends = [f"{row[f'advantage{end}']:+.2f}" for end in ("", "_low", "_high")]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"


def _measured(agent: str, file: str) -> pd.DataFrame:
    place = PLACE / agent / file
    return pd.read_csv(place) if place.exists() else pd.DataFrame()


TABLES = {
    "shipped": scores,
    "shipped more": elsewhere,
    "shipped mask": masks,
    "shipped faithfulness": faithfulness,
    "shipped twins": twins,
    "shipped severities": severities,
}
