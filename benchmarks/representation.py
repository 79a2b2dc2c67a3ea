"""What the shipped agents' representations hold, measured and written into docs/representation.md.

`python -m benchmarks.representation` measures every shipped agent (probes, layers, interventions,
the smallest breaking drawing) into results/representation/NAME/, with what each command took, and
writes the page's tables between its marks; `--page` writes the tables only, from what is measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks import probe_anchor
from benchmarks.timed import costs, timed
from reprl import tables
from reprl.analysis.readability import over_runs
from reprl.disk import write_atomically
from reprl.runs.agents import shipped
from reprl.schema import BREAKING, EPISODES, FILES, INTERVENTIONS, LAYERS, PROBES, TableSchema

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "representation"
PAGE = ROOT / "docs" / "representation.md"
VARIANTS = ("constant_rectangle", "moving_square", "green_lines", "diagonals", "noise")
POSITIONS = ("ball_x", "ball_y", "paddle_x")
LABELS = ("ball_x", "ball_y", "ball_dx", "ball_dy", "paddle_x", "bricks_each")
LAYER = "linear.0"
HALF = 0.5
SEARCH = ("tries=12", "frames=16", "largest=16", "episodes=3")  # the smallest that says anything
SCHEMAS = {
    "probes": PROBES,
    "layers": LAYERS,
    "interventions": INTERVENTIONS,
    "breaking": BREAKING,
}


def commands(name: str) -> list[list[str]]:
    """What is measured of a shipped agent."""
    out = f"out={RESULTS / name}"
    variants = f"variants={','.join(VARIANTS)}"
    scripted = ["player=scripted", out]
    return [
        ["probe", f"agent:{name}", variants, *scripted],
        ["layers", f"agent:{name}", variants, *scripted],
        ["intervene", f"agent:{name}", *scripted],
        ["breaking", f"agent:{name}", *SEARCH, out],
    ]


def agents() -> list[str]:
    """The shipped agents that have been measured."""
    return [name for name in shipped() if (RESULTS / name / FILES["probes"]).is_file()]


def measured(name: str, kind: str) -> pd.DataFrame:
    """A committed table of a shipped agent."""
    schema: TableSchema = SCHEMAS[kind]
    return tables.read(RESULTS / name / FILES[kind], schema)[0]


def score(name: str, variant: str) -> float:
    """The mean of the agent's published games, NaN where there are none."""
    games, _ = tables.read(shipped()[name] / FILES["episodes"], EPISODES)
    return float(games.loc[games["variant"] == variant, "episode_return"].mean())


def pairs() -> pd.DataFrame:
    """A row for each agent and variant with published games, by the share of its score it keeps.

    `readable` is the mean R2 of the ball's place (none below 0) as a share of what it is on the
    clean game, `off` the mean error of both coordinates in pixels.
    """
    found = []
    for name in agents():
        rows = measured(name, "probes")
        rows = rows[(rows["source"] == "agent") & (rows["layer"] == LAYER)]
        rows = rows[rows["label"].isin(["ball_x", "ball_y"])]
        held = rows["r2"].clip(lower=0).groupby(rows["variant"]).mean()
        off = rows.groupby("variant")["error"].mean()
        for variant in VARIANTS:
            kept = score(name, variant) / score(name, "original")
            if np.isfinite(kept):
                row = {"agent": name, "variant": variant, "kept": kept, "off": off[variant]}
                found.append(row | {"readable": held[variant] / held["original"]})
    return pd.DataFrame(found).sort_values("kept", ascending=False, ignore_index=True)


def kept() -> str:
    """Score beside ball, pair by pair."""
    lines = [["agent", "variant", "score kept", "ball readable", "off, px"]]
    lines.append(["---", "---", *["---:"] * 3])
    for row in pairs().to_dict("records"):
        shares = [f"{row[k]:.0%}".replace("%", " %") for k in ("kept", "readable")]
        lines.append([row["agent"], row["variant"], *shares, f"{row['off']:.1f}"])
    return _table(lines)


def reading() -> str:
    """Whether lost score is a lost ball, counted over the pairs; half is what parts them."""
    found = pairs()
    order = float(stats.spearmanr(found["kept"], found["readable"]).statistic)
    gone, left = found[found["kept"] < HALF], found[found["kept"] >= HALF]
    blind, seeing = gone[gone["readable"] < HALF], gone[gone["readable"] >= HALF]
    named = [f"`{r['agent']}` on {r['variant']}" for r in seeing.to_dict("records")]
    said = (
        f"Over the {len(found)} pairs of agent and variant the rank correlation of score kept and "
        f"ball still readable is {order:.2f}. {len(left)} pairs keep at least half of the score: "
        f"of those {(left['readable'] >= HALF).sum()} keep at least half of the ball. {len(gone)} "
        f"pairs lose more than half of the score: in {len(blind)} of them more than half of the "
        f"ball is gone too, in {len(seeing)} it is still readable"
    )
    return f"{said} ({', '.join(named)})." if named else f"{said}."


def probed() -> str:
    """Score beside what is read in the layer of the heads; R2, balanced accuracy of directions."""
    lines = [["agent", "variant", "score", *LABELS], ["---", "---", *["---:"] * (1 + len(LABELS))]]
    for name in agents():
        found = over_runs(measured(name, "probes"))
        for source in ("agent", "untrained", "pixels", "shuffled", "truth"):
            part = found[found["source"] == source]
            if source in ("agent", "untrained", "shuffled"):
                part = part[part["layer"] == LAYER]
            beside = source in ("agent", "untrained")
            variants = ("original", *VARIANTS) if beside else ("original",)
            for variant in variants:
                at = part[part["variant"] == variant].set_index("label")
                values = at["r2"].fillna(at["balanced_accuracy"])
                called = name if source == "agent" else f"{source} ({name})"
                known = score(name, variant) if source == "agent" else np.nan
                cells = [f"{values[k]:.2f}" if k in values else "-" for k in LABELS]
                lines.append([called, variant, _number(known), *cells])
    return _table(lines)


def errors() -> str:
    """Mean error in pixels of 84 and correlation, in the same layer."""
    lines = [["agent", "variant", *POSITIONS], ["---", "---", *["---:"] * len(POSITIONS)]]
    for name in agents():
        found = measured(name, "probes")
        found = found[(found["source"] == "agent") & (found["layer"] == LAYER)]
        for variant in ("original", *VARIANTS):
            at = found[found["variant"] == variant].set_index("label")
            cells = [f"{at.error[k]:.1f}, r {at.correlation[k]:.2f}" for k in POSITIONS]
            lines.append([name, variant, *cells])
    return _table(lines)


def layered() -> str:
    """The ball's place layer by layer and variant by variant, of the agent and of first weights."""
    columns = ("original", *VARIANTS)
    lines = [["agent", "layer", *columns], ["---", "---", *["---:"] * len(columns)]]
    for name in agents():
        found = measured(name, "probes")
        found = found[found["label"].isin(["ball_x", "ball_y"])]
        found = found.assign(r2=found["r2"].clip(lower=0))
        means = found.groupby(["source", "layer", "variant"], sort=False)["r2"].mean()
        for layer in dict.fromkeys(found.loc[found["source"] == "agent", "layer"]):
            pairs = [[means[s, layer, v] for s in ("agent", "untrained")] for v in columns]
            lines.append([name, str(layer), *(f"{a:.2f} / {b:.2f}" for a, b in pairs)])
    return _table(lines)


def damaged() -> str:
    """Similarity and what comes back, layer by layer, on green lines."""
    columns = ("cka", "cosine", "distance", "policy_returned", "policy_offset", "value_offset")
    lines = [["agent", "variant", "layer", *columns], ["---"] * 3 + ["---:"] * len(columns)]
    for name in agents():
        found = measured(name, "layers")
        for variant in ("green_lines", "constant_rectangle"):
            for row in found[found["variant"] == variant].to_dict("records"):
                cells = [_number(row[k], 2) for k in columns]
                lines.append([name, variant, str(row["layer"]), *cells])
    return _table(lines)


def reacted() -> str:
    """The reaction to each object, its changes taken together, and what the gradient claims."""
    lines = [["player", "object", "policy js", "action flips", "value", "gradient (times even)"]]
    lines.append(["---", "---", *["---:"] * 4])
    seen = set()
    for name in agents():
        found = measured(name, "interventions")
        for (method, thing), part in found.groupby(["method", "object"], sort=False):
            scripted = str(method).startswith("scripted")
            called = str(method) if scripted else name
            if scripted and (called, thing) in seen:
                continue
            seen.add((called, thing))
            cells = [_number(part[k].mean(), d) for k, d in (("js", 3), ("flips", 2))]
            cells += [_number(part[k].mean(), 2) for k in ("value_error", "claim_density")]
            lines.append([called, str(thing), *cells])
    return _table(lines)


def correlated() -> str:
    """The rank correlation of reaction and gradient over all changes."""
    parts = []
    for name in agents():
        own = measured(name, "interventions")
        known = own["rank_correlation"].dropna()
        if len(own):
            parts.append(f"{name} {known.iloc[0]:.2f}" if len(known) else f"{name} unknown")
    return f"Rank correlation of reaction and gradient over the ten changes: {', '.join(parts)}."


def broken() -> str:
    """The searched sizes."""
    lines = [["agent", "cells", "row, column", "gray", "policy js", "score", "clean", "broken"]]
    lines.append(["---", "---", "---", *["---:"] * 4, "---"])
    for name in agents():
        for row in measured(name, "breaking").to_dict("records"):
            place = f"{row['row']:.0f}, {row['column']:.0f}"
            numbers = [_number(row[k]) for k in ("score", "clean")]
            size = f"{row['height']}x{row['width']}"
            verdict = "yes" if row["broken"] else "no" if row["episodes"] else "not played"
            cells = [name, size, place, f"{row['gray']:.0f}", f"{row['js']:.3f}", *numbers, verdict]
            lines.append(cells)
    return _table(lines)


def costed() -> str:
    """Seconds of one core that each command took, of each agent."""
    found = costs().set_index(["of", "command"])["core_seconds"].to_dict()
    names = [words[0] for words in commands("")]
    if not any((name, k) in found for name in agents() for k in names):
        return "**Not measured yet.**"
    lines = [["agent", *names], ["---", *["---:"] * len(names)]]
    for name in agents():
        lines.append([name, *(_number(found.get((name, k), np.nan), 0) for k in names)])
    return _table(lines)


PARTS: dict[str, Callable[[], str]] = {
    "kept": kept,
    "reading": reading,
    "probed": probed,
    "errors": errors,
    "layered": layered,
    "damaged": damaged,
    "reacted": reacted,
    "correlated": correlated,
    "broken": broken,
    "costed": costed,
    "anchored": probe_anchor.table,
}


def page(text: str) -> str:
    """The page with every table between its marks made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        if not rest or end not in rest:
            raise SystemExit(f"{PAGE} has no marks for '{name}'.")
        text = f"{before}{begin}{make()}\n{end}{after}"
    return text


def _table(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float, digits: int = 1) -> str:
    return "" if not np.isfinite(value) else f"{value:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the tables only")
    parser.add_argument("--only", default="", help="one of probe, layers, intervene, breaking")
    parser.add_argument("--agent", default="", help="one shipped agent")
    options = parser.parse_args()
    if not options.page:
        for name in shipped():
            for words in commands(name):
                if options.only in ("", words[0]) and options.agent in ("", name):
                    timed(words, name)
        for file in RESULTS.glob("*/*"):
            if file.name in ("config.yaml", "run.json", "metrics.csv"):
                file.unlink()  # the shipped agent's own
    if options.page or not (options.only or options.agent):
        write_atomically(PAGE, page(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
