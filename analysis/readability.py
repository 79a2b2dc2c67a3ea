"""Probes of several runs as one statement: means over training seeds with their intervals.

rows of `evaluation/probes.csv` -> **one number a run** -> Student t over runs, as scores have it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from reprl.analysis.stats import estimate, mean

KEYS = ("method", "variant", "player", "source", "layer", "label")
# Layers that come after the features, or belong to the value alone, by the names SB3 gives them.
HEADS = re.compile(
    r"(action_net|value_net|q_net|critic)$"
    r"|(q_net\.q_net|quantile_net\.quantile_net|vf_features_extractor)(\.|$)"
    r"|(actor\.latent_pi|actor\.mu|critic\.qf\d+)(\.|$)"
)
MEASURES = ("r2", "error", "correlation", "balanced_accuracy")


def readable(rows: pd.DataFrame) -> pd.Series:
    """R2 of numbers and balanced accuracy of yes/no labels, in one column."""
    return rows["r2"].fillna(rows["balanced_accuracy"])


def over_runs(rows: pd.DataFrame, keys: Sequence[str] = KEYS) -> pd.DataFrame:
    """One row for each key: the mean over runs of every measure, `_low` and `_high` around it.

    The unit is a trained run; one run has no interval.
    """
    found = []
    for values, part in rows.groupby(list(keys), sort=False, dropna=False):
        row = dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))
        runs = part.groupby("train_seed")[list(MEASURES)].mean()  # copies of a run count once
        row |= {"n_seeds": len(runs), "unit": part["unit"].iloc[0]}
        for measure in MEASURES:
            got = estimate(mean, runs[measure].to_numpy(float))
            row |= {measure: got.value, f"{measure}_low": got.low, f"{measure}_high": got.high}
        found.append(row)
    return pd.DataFrame(found)


def features_layer(rows: pd.DataFrame) -> str:
    """The layer the heads read: the last one of the network that is no head's.

    Where value or critic have an encoder of their own, it is the one that decides the action.
    """
    own = rows[rows["source"] == "agent"]
    sizes = pd.to_numeric(own.drop_duplicates("layer").set_index("layer")["inputs"])
    names = [str(name) for name in sizes.index if not HEADS.match(str(name))]
    acting = [name for name in names if name.startswith("actor.")]
    names = acting or names
    wide = [name for name in names if np.isfinite(sizes[name]) and sizes[name] > 1]
    return wide[-1] if wide else str(sizes.index[-1])
