"""What a curriculum left behind: forgetting and forward transfer, from a run's own validation.

metrics.csv of runs with `env.curriculum` -> **one row a method and variant** -> report. For a
variant that was a stage, with scores of the validation during training:
learned = the last one within its last stage; forgetting = learned less the last of all;
forward = the last one before its first stage, less random play.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.load import Run
from reprl.analysis.random_play import measured
from reprl.analysis.tables import Column, Table
from reprl.envs.defaults import CLEAN
from reprl.naming import trained_variants
from reprl.schema import VALIDATION_PREFIX

NUMBERS = ("learned", "final", "forgetting", "before", "forward")
STAGE, PLACE = "curriculum/stage", "curriculum/variant"


def curriculum_table(runs: Iterable[Run]) -> Table:
    """The table of all runs that had a curriculum; means over runs."""
    rows = [{"method": run.method, "seed": run.seed, **row} for run in runs for row in _of_run(run)]
    columns = [
        Column("method", "Method"),
        Column("variant", "Stage"),
        Column("n_seeds", "Seeds", "count"),
        Column("before", "Before it", "score", help="validation score as its stage began"),
        Column("forward", "Forward transfer", "score", help="that less random play"),
        Column("learned", "Learned", "score", help="at the end of its last stage"),
        Column("final", "In the end", "score"),
        Column("forgetting", "Forgotten", "score", help="learned less in the end"),
    ]
    frame = pd.DataFrame(rows, columns=["method", "seed", "variant", *NUMBERS])
    groups = frame.groupby(["method", "variant"], sort=False)
    means = groups[list(NUMBERS)].mean().join(groups["seed"].nunique().rename("n_seeds"))
    note = "Validation scores during training, means over runs; a game in play ends as it began."
    title = "Curricula: what later stages forgot, and what earlier ones gave"
    return Table("curriculum", title, columns, means.reset_index(), note)


def _of_run(run: Run) -> list[dict[str, Any]]:
    env = run.config.get("env")
    if not isinstance(env, Mapping) or env.get("curriculum") is None or run.metrics is None:
        return []
    return transfer(run.metrics, trained_variants(run.config), run.game)


def transfer(metrics: pd.DataFrame, stages: list[str], game: str) -> list[dict[str, Any]]:
    """Forgetting and forward transfer of each stage's variant that validation has played."""
    if PLACE not in metrics:
        return []
    rows = []
    for place, variant in enumerate(stages):
        column = f"{VALIDATION_PREFIX}{variant}"
        if column not in metrics or variant in stages[:place]:
            continue
        known = metrics[[PLACE, column]].apply(pd.to_numeric, errors="coerce").dropna()
        scores = known[column].to_numpy(float)
        within = np.flatnonzero(known[PLACE].to_numpy() == place)
        if not scores.size:
            continue
        began = within[0] if within.size else len(scores)
        before = scores[began - 1] if began else np.nan
        learned = scores[within[-1]] if within.size else np.nan
        rows.append(
            {
                "variant": variant,
                "before": before,
                "forward": before - _random(game, variant),
                "learned": learned,
                "final": scores[-1],
                "forgetting": learned - scores[-1],
            }
        )
    return rows


def _random(game: str, variant: str) -> float:
    """The mean of shipped random play: the variant's own where physics differ, else the clean."""
    known = measured()
    known = known[known["game"] == game]
    own = known[known["variant"] == variant.partition("@")[0]]
    rows = own if len(own) else known[known["variant"] == CLEAN]
    return float(rows["episode_return"].mean()) if len(rows) else float("nan")
