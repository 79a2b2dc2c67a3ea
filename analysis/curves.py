"""Learning curves: from the metrics.csv of runs to one banded curve per method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from reprl.analysis.stats import Array, estimate, mean

STEP_COLUMNS = ("step", "steps", "total_timesteps", "time/total_timesteps")
TIME_COLUMNS = ("time/elapsed", "time/time_elapsed")
SCORE_COLUMNS = ("rollout/score", "score", "rollout/ep_rew_mean", "rollout/episode_return")
SPEED_COLUMNS = ("time/steps_per_second", "time/fps", "fps")
POINTS = 60


def first_column(frame: pd.DataFrame, candidates: Sequence[str]) -> str | None:
    """The first candidate the table has, since loggers differ in what they call it."""
    return next((c for c in candidates if c in frame.columns), None)


def load_curve(
    metrics: pd.DataFrame, columns: Sequence[str] = STEP_COLUMNS
) -> tuple[Array, Array] | None:
    """The training score of one run as (steps, scores), both (T,), or None if it has none.

    `columns` are what it may be drawn over: TIME_COLUMNS for seconds of training.
    """
    step, score = first_column(metrics, columns), first_column(metrics, SCORE_COLUMNS)
    if step is None or score is None:
        return None
    table = metrics[[step, score]].apply(pd.to_numeric, errors="coerce").dropna()
    table = table[np.isfinite(table).all(axis=1)].groupby(step, as_index=False).last()
    if table.empty:
        return None
    return table[step].to_numpy(float), table[score].to_numpy(float)


def steps_per_second(metrics: pd.DataFrame) -> float:
    """Median training speed of one run, NaN if it was not recorded."""
    column = first_column(metrics, SPEED_COLUMNS)
    if column is None:
        return float("nan")
    values = pd.to_numeric(metrics[column], errors="coerce")
    return float(values[np.isfinite(values)].median())


def banded(curves: Sequence[tuple[Array, Array]]) -> pd.DataFrame:
    """Mean over runs on a common grid: step, n_seeds, score, low, high.

    At each step only runs that got that far count, so that a run that stopped early is not
    continued by invention; `n_seeds` says how many are left.
    """
    if not curves:
        return pd.DataFrame(columns=["step", "n_seeds", "score", "low", "high"])
    start = min(steps[0] for steps, _ in curves)
    end = max(steps[-1] for steps, _ in curves)
    grid = np.unique(np.linspace(start, end, POINTS))
    values = np.stack(
        [np.interp(grid, steps, scores, left=np.nan, right=np.nan) for steps, scores in curves]
    )  # (R, T)
    rows = []
    for i, step in enumerate(grid):
        got = estimate(mean, values[:, i])
        if got.n_seeds:
            rows.append((step, got.n_seeds, got.value, got.low, got.high))
    return pd.DataFrame(rows, columns=["step", "n_seeds", "score", "low", "high"])


def together(curves: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The mean curve of runs that are the same experiment."""
    if len(curves) == 1:
        return curves[0]
    band = banded(curves)
    return band["step"].to_numpy(float), band["score"].to_numpy(float)
