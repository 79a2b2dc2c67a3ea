"""Twin evaluation of run folders: keeps evaluation/twin.csv up to date."""

from __future__ import annotations

import pandas as pd

from reprl import tables
from reprl.envs import Variant
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.players import Task
from reprl.evaluation.twin import (
    changes_the_game,
    reason,
    twin_evaluation,
)
from reprl.evaluation.variants import label
from reprl.game_seeds import whose_games
from reprl.schema import FILES, TWIN
from reprl.schema import TWIN_MEASURES as MEASURES


def split(variants: list[Variant]) -> tuple[list[Variant], list[str]]:
    """The variants that can be compared, and why the others cannot."""
    chosen = [v for v in variants if v.effects and not changes_the_game(v)]
    return chosen, [reason(v) for v in variants if changes_the_game(v)]


def looked_at(
    target: Measured,
    variants: list[Variant],
    *,
    steps: int,
    seed: int,
    games: str,
    deterministic: bool,
    sticky: float,
    workers: int,
) -> pd.DataFrame:
    """The rows of these variants; only those that are not in the file are measured."""
    path = target.place / FILES["twin"]
    there, _ = tables.read(path, TWIN)
    protocol = {"method": target.method, "eval_seed": seed, "sticky": sticky}
    protocol |= {"deterministic": deterministic}
    whose = whose_games(games, target.seed)

    def rows(frame: pd.DataFrame, variant: Variant, step: int) -> pd.DataFrame:
        same = (frame["variant"] == label(variant)) & (frame["step"] == step)
        for column, value in protocol.items():
            same &= frame[column] == value
        seeds = {e: Task(variant, e, seed, whose).game_seed for e in set(frame["episode"])}
        same &= frame["game_seed"] == frame["episode"].map(seeds)
        return frame[same].sort_values(["episode", "step_in_game"])[:steps]

    new = [v for v in variants if len(rows(there, v, target.step)) < steps]
    step = target.step
    if new:
        model = target.load()
        step = int(model.num_timesteps)
        measured = twin_evaluation(
            model,
            new,
            steps,
            seed,
            games=games,
            deterministic=deterministic,
            sticky=sticky,
            workers=workers,
            labels=target.labels(step),
            **target.settings,
        )
        there = tables.merge(path, measured, TWIN)
    found = pd.concat([rows(there, v, step) for v in variants], ignore_index=True)
    return found.assign(run=target.name)


def twin_summary(rows: pd.DataFrame) -> list[list[str]]:
    """Means per run and variant, as text; the header comes first."""
    lines = [["run", "variant", "steps", *MEASURES]]
    for (run, variant), part in rows.groupby(["run", "variant"], sort=False):
        means = [f"{part[m].mean():.3f}" if part[m].notna().any() else "-" for m in MEASURES]
        lines.append([str(run), str(variant), str(len(part)), *means])
    return lines
