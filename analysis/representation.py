"""What the report shows of representations: probes, layers, interventions, the smallest break.

evaluation/{probes,layers,interventions,breaking}.csv -> **tables, and what a variant takes away**
(score kept against object still readable, a point for each run and variant) -> page and figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.contents import METHOD, SEEDS, VARIANT, spread
from reprl.analysis.gap import Played, random_scores
from reprl.analysis.measured import last_step
from reprl.analysis.readability import features_layer, over_runs, readable
from reprl.analysis.stats import estimate, mean
from reprl.analysis.tables import Column, Table
from reprl.naming import is_baseline
from reprl.schema import CLEAN

SOURCES = {"agent": "the trained network", "untrained": "first weights", "pixels": "the picture"}
LOWEST = -9.99  # of R2 in a table: what is worse is no better known
PLAYER = "player"


def usual_player(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of one kind of play: of scripted games where most runs have them, as all share those."""
    if rows.empty or PLAYER not in rows:
        return rows
    counts = rows.groupby(PLAYER)["run"].nunique()
    best = max(counts.index, key=lambda p: (counts[p], p == "scripted", p == "agent"))
    return rows[rows[PLAYER] == best]


def probe_table(probes: pd.DataFrame) -> Table:
    """Layers as rows, quantities as columns; of each layer the agent's and the untrained network's.

    The clean game comes before the variants, so that what a variant takes away is read downwards.
    """
    title = "Probes: what each layer holds"
    if probes.empty:
        return Table("probes", title, [], pd.DataFrame())
    rows = usual_player(last_step(probes))
    labels = [str(label) for label in dict.fromkeys(rows["label"])]
    numbers = set(rows.loc[rows["r2"].notna(), "label"])
    found = over_runs(rows[rows["source"].isin(list(SOURCES))])
    wide: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in found.to_dict("records"):
        key = tuple(row[k] for k in ("method", "variant", "source", "layer"))
        line = wide.setdefault(
            key, dict(zip(("method", "variant", "source", "layer"), key, strict=True))
        )
        line["n_seeds"] = max(line.get("n_seeds", 0), row["n_seeds"])
        name = "r2" if row["label"] in numbers else "balanced_accuracy"
        for end in ("", "_low", "_high"):
            line[f"{row['label']}{end}"] = max(row[f"{name}{end}"], LOWEST)
    columns = [METHOD, Column("layer", "Layer"), Column("source", "Read from"), VARIANT, SEEDS]
    for label in labels:
        what = "R2: 1 is all, 0 nothing" if label in numbers else "balanced accuracy: 0.5 is chance"
        columns.append(spread(label, label.replace("_", " "), "two", what))
    first = rows.iloc[0]
    note = (
        f"Linear probes, fitted on clean frames of player={first[PLAYER]} and read on other games, "
        "clean and on the same states under each variant. R2 of numbers, balanced accuracy of "
        "yes/no labels. untrained: the same network with first weights; pixels: no network at all."
    )
    frame = _in_order(pd.DataFrame(list(wide.values())))
    return Table("probes", title, columns, frame, note, "variant")


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """By method, layer (as the network computes them, the picture last), source, clean first."""
    places = {str(name): i for i, name in enumerate(dict.fromkeys(frame["layer"]))}
    sources = {name: i for i, name in enumerate(SOURCES)}
    frame = frame.assign(
        place=frame["layer"].map(places) + len(places) * (frame["source"] == "pixels"),
        rank=frame["source"].map(sources),
        varied=frame["variant"] != CLEAN,
    )
    ordered = frame.sort_values(["method", "place", "rank", "varied"], kind="stable")
    return ordered.drop(columns=["place", "rank", "varied"]).reset_index(drop=True)


def layers_table(layers: pd.DataFrame) -> Table:
    """Similarity of clean and varied activations, and what putting a layer right returns."""
    title = "Layers: where the damage is done"
    texts = {
        "cka": ("CKA", "two", "similarity of the geometry: 1 is the same, blind to an offset"),
        "cosine": ("Cosine", "two", "of clean and varied activation, mean over frames"),
        "distance": ("Distance", "two", "as a multiple of the clean frames' own spread"),
        "policy_returned": ("Policy back", "share", "with the clean activation put back here"),
        "value_returned": ("Value back", "share", "with the clean activation put back here"),
        "policy_offset": ("Policy by mean", "share", "with only the clean mean put back here"),
        "value_offset": ("Value by mean", "share", "with only the clean mean put back here"),
        "blame": ("Blame", "share", "what this layer returns beyond those before it"),
    }
    columns: list[Column] = [METHOD, VARIANT, Column("layer", "Layer"), SEEDS]
    columns += [spread(k, label, kind, text) for k, (label, kind, text) in texts.items()]
    note = (
        "The same states, clean and varied. In a chain of layers the whole clean activation brings "
        "everything back from any layer on; where the mean alone brings it back, the variant only "
        "displaces the activations, and where it no longer does, displacement has become loss."
    )
    keys = ("method", "variant", "layer")
    frame = _estimates(usual_player(last_step(layers)), keys, list(texts))
    return Table("layers", title, columns, frame, note, "variant")


def interventions_table(interventions: pd.DataFrame) -> Table:
    """The policy's reaction to each object that is changed through RAM, beside the map's claim."""
    title = "Interventions: what the policy reacts to"
    columns: list[Column] = [METHOD, Column("object", "Object"), Column("change", "Change"), SEEDS]
    texts = {
        "js": ("Policy JS", "small", "nats by which the policy moves"),
        "flips": ("Action flips", "share", "another likeliest action"),
        "value_error": ("Value change", "two", "absolute"),
        "claim_density": ("Map", "two", "mass of mask or gradient on it, as a multiple of even"),
        "rank_correlation": ("Rank correlation", "two", "of policy JS and map over all changes"),
    }
    columns += [spread(k, label, kind, text) for k, (label, kind, text) in texts.items()]
    note = (
        "One object is moved or deleted through RAM, all else left alone, and the policy asked "
        "again. Scripted players that are blind to an object are the control: their reaction to it "
        "is 0. The rank correlation says whether a map marks what the policy reacts to."
    )
    keys = ("method", "object", "change")
    rows = usual_player(last_step(interventions))
    if len(rows):  # controls last, the changes of an object together
        control = rows["method"].map(is_baseline)
        rows = rows.assign(change=rows["change"].mask(control, "any"))
        rows = pd.concat([rows[~control], rows[control]])
    frame = _estimates(rows, keys, list(texts))
    return Table("interventions", title, columns, frame, note)


def breaking_table(breaking: pd.DataFrame) -> Table:
    """Of each run the smallest drawing that breaks it."""
    title = "The smallest drawing that breaks each agent"
    columns = [
        METHOD,
        Column("run", "Run"),
        Column("found", "Smallest drawing"),
        Column("js", "Policy JS", "small"),
        Column("clean", "Clean", "score"),
        Column("score", "With it", "score"),
        Column("share", "Kept", "share"),
    ]
    rows = []
    for row in smallest(last_step(breaking)) if len(breaking) else ():
        words = f"{row['height']:.0f}x{row['width']:.0f} cells at {row['row']:.0f}, "
        words += f"{row['column']:.0f}, gray {row['gray']:.0f}"
        none = f"none up to {row['height']:.0f}x{row['width']:.0f} cells"
        rows.append(row | {"found": words if row["broken"] else none})
    note = (
        "Rectangles under the objects, in cells of 2x2 raw pixels, searched by twin divergence and "
        "confirmed by full games with other seeds."
    )
    frame = pd.DataFrame(rows, columns=[c.key for c in columns])
    return Table("breaking", title, columns, frame, note)


def smallest(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Of each run the row that broke it, or its last one."""
    for _, part in rows.groupby(["run", "step"], sort=False):
        broken = part[part["broken"] == 1]
        last = (broken if len(broken) else part).iloc[-1]
        yield {str(key): value for key, value in last.items()}


def _estimates(rows: pd.DataFrame, keys: Sequence[str], measures: Sequence[str]) -> pd.DataFrame:
    """Means over training seeds with their intervals, one row for each key."""
    found = []
    if len(rows):
        for values, part in rows.groupby(list(keys), sort=False):
            row: dict[str, Any] = dict(zip(keys, values, strict=True))
            seeds = part.groupby("train_seed")[list(measures)].mean()
            row["n_seeds"] = len(seeds)
            for measure in measures:
                got = estimate(mean, seeds[measure].dropna().to_numpy(float))
                row |= {measure: got.value, f"{measure}_low": got.low, f"{measure}_high": got.high}
            found.append(row)
    return pd.DataFrame(found)


def taken_away(
    probes: pd.DataFrame, table: Played | None, tracked: str | None
) -> list[dict[str, Any]]:
    """A point for each run and variant: the share of its score and of its object that is left.

    `readable` is the mean R2 of the object's place in the layer that the heads read, none below 0,
    as a share of what it is on the clean game; `kept` is the run's own retention.
    """
    if probes.empty or table is None or tracked is None or CLEAN not in table.scores:
        return []
    rows = usual_player(last_step(probes))
    rows = rows[(rows["source"] == "agent") & rows["label"].isin([f"{tracked}_x", f"{tracked}_y"])]
    random = random_scores(table.scores)
    found = []
    keys: Any
    for keys, own in rows.groupby(["method", "train_seed"], sort=False):
        method, seed = str(keys[0]), int(keys[1])
        if is_baseline(method) or (method, seed) not in table.scores.index:
            continue
        part = own[own["layer"] == features_layer(own)]
        held = readable(part).clip(lower=0).groupby(part["variant"]).mean()
        scores: Any = table.scores.loc[keys]
        learned = scores[CLEAN] - random.get(CLEAN, np.nan)
        if not held.get(CLEAN, 0) > 0 or not learned >= table.scale:
            continue
        for variant in held.index:
            kept = (scores.get(variant, np.nan) - random.get(variant, np.nan)) / learned
            if variant != CLEAN and np.isfinite(kept):
                found.append(
                    {
                        "method": method,
                        "seed": seed,
                        "variant": str(variant),
                        "kept": float(kept),
                        "readable": float(held[variant] / held[CLEAN]),
                        "r2": float(held[variant]),
                        "clean_r2": float(held[CLEAN]),
                        "score": float(scores[variant]),
                    }
                )
    return found
