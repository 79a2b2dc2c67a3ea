"""The tables users kept by hand: one row per run, and the settings in which methods differ."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.coverage import main_variants
from reprl.analysis.curves import load_curve, steps_per_second
from reprl.analysis.gap import prepare, random_scores, run_scores
from reprl.analysis.grouping import method_settings
from reprl.analysis.lengths import training_steps
from reprl.analysis.load import Results, Run
from reprl.analysis.stats import retention
from reprl.analysis.tables import Column, Table
from reprl.naming import parts_of
from reprl.schema import CLEAN, MASK_STATES, PARTS

STATE_HELP = "; ".join(f"{label}: {words}" for label, words in MASK_STATES.items())
STATE_HELP = f"of the mask; {STATE_HELP}; flat: its cells hardly differ"


def ablation_table(results: Results) -> Table:
    """Settings, training speed, generalization and the state of the attention, run by run."""
    half, trained = _half_of_best(results.runs), training_steps(results)
    scores, random, variants = None, None, []
    if not results.episodes.empty:
        table = run_scores(results.episodes)
        random, variants = random_scores(table), main_variants(table)
        frame = prepare(results.episodes)
        scores = frame.pivot_table(
            index="run", columns="variant", values="episode_return", aggfunc="mean"
        )
    rows = []
    for run in results.runs:
        row: dict[str, Any] = {"method": run.method, "run": run.name, "seed": run.seed}
        row |= parts_of(run.config)
        row["status"] = str(run.record.get("status", "unknown"))
        row["steps"] = trained[run.name]
        row["steps_per_second"] = np.nan
        row["steps_to_half"] = np.nan
        row["training_score"] = np.nan
        if run.metrics is not None:
            row["steps_per_second"] = steps_per_second(run.metrics)
            curve = load_curve(run.metrics)
            if curve is not None:
                steps, values = curve
                row["training_score"] = float(np.mean(values[-max(1, len(values) // 20) :]))
                reached = steps[values >= half]
                row["steps_to_half"] = float(reached[0]) if len(reached) else np.nan
        row |= _generalization(run, scores, random, variants)
        row["attention_state"] = attention_state(run)
        rows.append(row)
    # A setting that is the same everywhere needs no column: it is said once.
    same = [k for k in (*PARTS, "status") if len({r[k] for r in rows}) == 1]
    note = "The same in all runs: " + ", ".join(f"{k} {rows[0][k]}" for k in same) + "."
    columns = [
        Column("method", "Method"),
        Column("run", "Run"),
        Column("seed", "Seed", "count"),
        *(Column(k, k.capitalize()) for k in (*PARTS, "status") if k not in same),
        Column("steps", "Steps", "count", help="of the evaluated checkpoint, else trained so far"),
        Column("steps_per_second", "Steps/s", "count"),
        Column("steps_to_half", f"Steps to score {half:.1f}", "count", help="half the best"),
        Column("training_score", "Training score", "score", help="points a game, last 5 %"),
        Column("clean", "Clean", "score"),
        Column("variants", "Variants", "score"),
        Column("retention", "Retention", "share"),
        Column("attention_state", "State of attention", help=STATE_HELP),
    ]
    return Table("ablation", "Run by run", columns, pd.DataFrame(rows), note if same else "")


def _generalization(
    run: Run, scores: pd.DataFrame | None, random: pd.Series | None, variants: list[str]
) -> dict[str, float]:
    nothing = {"clean": np.nan, "variants": np.nan, "retention": np.nan}
    if scores is None or random is None or run.name not in scores.index:
        return nothing
    own = scores.loc[[run.name]].mean(axis=0)
    values = own.reindex([CLEAN, *variants]).to_numpy(float)  # (1 + V,)
    base = random.reindex([CLEAN, *variants]).to_numpy(float)
    kept = retention(values[1:], values[0], base[1:], base[0], run.score_scale)
    kept = kept[np.isfinite(base[1:])]
    return {
        "clean": float(values[0]),
        "variants": float(values[1:].mean()) if variants else np.nan,
        "retention": float(kept.mean()) if len(kept) else np.nan,
    }


def _half_of_best(runs: list[Run]) -> float:
    ends = []
    for run in runs:
        curve = load_curve(run.metrics) if run.metrics is not None else None
        if curve is not None:
            ends.append(float(np.max(curve[1])))
    return max(ends) / 2 if ends else float("nan")


def attention_state(run: Run) -> str:
    """What became of the mask: `healthy`, or the collapse labels with the variants they show on."""
    if not run.labels:
        return "not measured" if run.images else "none"
    found: dict[str, list[str]] = {}
    for variant, labels in run.labels.items():
        for label in labels:
            found.setdefault(label, []).append(variant)
    if not found:
        return "healthy"
    return "; ".join(f"{label} on {', '.join(where)}" for label, where in found.items())


def settings_table(runs: list[Run]) -> Table:
    """The settings in which methods differ, one column per method."""
    methods: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        settings = methods.setdefault(run.method, {})
        for key, value in method_settings(run.config).items():
            settings.setdefault(key, set()).add(_value(value))
    keys = sorted({key for settings in methods.values() for key in settings})
    keys = [k for k in keys if not any(other.startswith(k + ".") for other in keys)]
    rows = []
    for key in keys:
        values = {m: ", ".join(sorted(s.get(key, {"none"}))) for m, s in methods.items()}
        if len(set(values.values())) > 1:
            rows.append({"setting": key} | values)
    columns = [Column("setting", "Setting"), *(Column(m, m) for m in methods)]
    frame = pd.DataFrame(rows, columns=[c.key for c in columns])
    return Table("settings", "Settings that differ", columns, frame)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)
