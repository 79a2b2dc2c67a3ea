"""The agents that ship, for docs/results.md: what they keep, how far they react, where they look.

games, twins and looks of results/agents and results/shipped -> the tables that
`benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.declared_page import PUBLISHED
from reprl.runs.agents import shipped
from reprl.schema import CLEAN

PLACE = Path(__file__).parent.parent / "results" / "shipped"  # what was measured of them since
MASKED = ("imitation_mask", "imitation_where")


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
    """Mean points on the other variants, worst first, of the shipped agents that played them."""
    found = {}
    for name in shipped():
        means = published_games(name).groupby("variant")["episode_return"].mean()
        others = means.drop([CLEAN, *PUBLISHED], errors="ignore")
        if len(others):
            found[f"`agent:{name}`"] = others
    table = pd.DataFrame(found)
    lines = ["| variant | " + " | ".join(table) + " |", "|---" * (1 + len(found)) + "|"]
    for variant, row in table.loc[table.iloc[:, 0].sort_values().index].iterrows():
        lines.append(f"| {variant} | " + " | ".join(f"{x:.1f}" for x in row) + " |")
    return "\n".join(lines)


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
    return "\n".join(lines)


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
    return "\n".join(lines)


def _measured(agent: str, file: str) -> pd.DataFrame:
    place = PLACE / agent / file
    return pd.read_csv(place) if place.exists() else pd.DataFrame()


TABLES = {
    "shipped": scores,
    "shipped more": elsewhere,
    "shipped mask": masks,
    "shipped twins": twins,
    "shipped severities": severities,
}
