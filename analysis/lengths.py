"""How long each run was trained: runs of different length may only be compared with that said."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from reprl.analysis.curves import STEP_COLUMNS, first_column
from reprl.analysis.gap import prepare
from reprl.analysis.load import Results, Run
from reprl.analysis.tables import as_number

SAME = 0.02  # runs end with a whole rollout, so equal settings may differ by a little


def training_steps(results: Results) -> dict[str, float]:
    """Per run the steps behind its scores: of the evaluated checkpoint, else trained so far."""
    steps = {run.name: _trained(run) for run in results.runs}
    if not results.episodes.empty:
        games = prepare(results.episodes)
        evaluated = pd.to_numeric(games["step"], errors="coerce").groupby(games["run"]).max()
        steps |= {n: float(s) for n, s in evaluated.dropna().items() if n in steps}
    return steps


def _trained(run: Run) -> float:
    metrics = run.metrics
    column = first_column(metrics, STEP_COLUMNS) if metrics is not None else None
    if metrics is None or column is None:
        return as_number(run.record.get("step"))
    return float(pd.to_numeric(metrics[column], errors="coerce").max())


def length_note(results: Results, methods: Iterable[str]) -> str:
    """A sentence naming the methods and their steps if they differ, else nothing."""
    steps = training_steps(results)
    lengths: dict[str, list[float]] = {}
    for run in results.runs:
        if run.method in set(methods) and steps[run.name] > 0:
            lengths.setdefault(run.method, []).append(steps[run.name])
    every = [s for found in lengths.values() for s in found]
    if not every or min(every) >= (1 - SAME) * max(every):
        return ""
    by_length: dict[str, list[str]] = {}
    for method, found in sorted(lengths.items(), key=lambda item: min(item[1])):
        low, high = min(found), max(found)
        text = f"{low:,.0f}" if low == high else f"between {low:,.0f} and {high:,.0f}"
        by_length.setdefault(text, []).append(method)
    parts = "; ".join(f"{', '.join(names)}: {text} steps" for text, names in by_length.items())
    return f"Not trained equally long, so a difference may only be one of training. {parts}."
