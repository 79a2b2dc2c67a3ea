"""Collects run and sweep folders into tables: the entrance of the analysis.

Nothing damaged stops it: what cannot be read becomes one warning each, the rest is reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from reprl.analysis.curves import read_metrics
from reprl.analysis.naming import is_baseline, method_name, method_settings
from reprl.analysis.tidy import REQUIRED, one_protocol, read_table, tidy_episodes
from reprl.errors import UserError

SKIPPED = {"checkpoints", "tensorboard", "wandb", "attention", "evaluation"}
IMAGES = (".png", ".jpg", ".jpeg")
TREND = "_over_training.svg"


@dataclass
class Run:
    """One run folder: its settings, history and whatever was measured on it."""

    name: str
    path: Path
    method: str
    seed: int
    config: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    metrics: pd.DataFrame | None = None
    images: dict[str, Path] = field(default_factory=dict)
    trends: dict[str, Path] = field(default_factory=dict)
    videos: dict[str, Path] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def game(self) -> str:
        """The game it was trained on."""
        env = self.config.get("env")
        return str(env.get("game", "breakout")) if isinstance(env, Mapping) else "breakout"


@dataclass
class Results:
    """Everything the report shows, and what could not be read."""

    runs: list[Run]
    episodes: pd.DataFrame
    twin: pd.DataFrame
    attention: pd.DataFrame
    faithfulness: pd.DataFrame
    warnings: list[str]
    folders: list[Path]


def collect(folders: Iterable[Path | str]) -> Results:
    """Read all runs below the folders; only folders without any run at all are an error."""
    roots = [Path(f) for f in folders]
    warnings: list[str] = []
    runs: list[Run] = []
    tables: dict[str, list[pd.DataFrame]] = {kind: [] for kind in REQUIRED}
    seen: set[Path] = set()
    for root in roots:
        before = len(seen)
        for folder in _folders_with_results(root):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                _read_folder(folder, root, runs, tables, warnings)
        if len(seen) == before:
            warnings.append(f"{root}: no run folder in it (none has config.yaml), skipped.")
    if not runs and not tables["episodes"]:
        names = ", ".join(f"'{r}'" for r in roots)
        raise UserError(
            f"no runs in {names}: a run folder has a config.yaml, as written by reprl train."
        )
    episodes = tidy_episodes(_concat(tables["episodes"]), warnings)
    _distinguish(runs, warnings)
    names_of = {run.name: run.method for run in runs}
    twin = one_protocol(_concat(tables["twin"]), warnings, "twin evaluations")
    frames = [episodes, twin, _concat(tables["attention"]), _concat(tables["faithfulness"])]
    for frame in frames:
        if not frame.empty and names_of:
            frame["method"] = frame["run"].map(names_of).fillna(frame["method"])
    _check(runs, frames[0], warnings)
    episodes, twin, attention, faithfulness = frames
    return Results(runs, episodes, twin, attention, faithfulness, warnings, roots)


def _folders_with_results(root: Path) -> Iterator[Path]:
    for place, children, files in os.walk(root):
        folder = Path(place)
        is_run = "config.yaml" in files and ({"run.json", "metrics.csv"} & set(files))
        if is_run or (folder / "evaluation" / "episodes.csv").is_file():
            yield folder
        children[:] = sorted(c for c in children if c not in SKIPPED and not c.startswith("."))


def _read_folder(
    folder: Path,
    root: Path,
    runs: list[Run],
    tables: dict[str, list[pd.DataFrame]],
    warnings: list[str],
) -> None:
    episodes = read_table(folder / "evaluation" / "episodes.csv", "episodes", warnings)
    run = None
    if (folder / "config.yaml").is_file():
        run = _read_run(folder, warnings)
        taken = {r.name for r in runs}
        if run.name in taken:
            run.name = f"{folder.parent.name}/{folder.name}"
        while run.name in taken:
            run.name += "'"
        if episodes is None:
            warnings.append(
                f"{run.name}: not evaluated yet, so it has a learning curve but no scores "
                f"(reprl evaluate {folder})."
            )
        runs.append(run)
    found = {
        "episodes": episodes,
        "twin": read_table(folder / "evaluation" / "twin.csv", "twin", warnings),
        "attention": read_table(folder / "attention" / "scores.csv", "attention", warnings),
        "faithfulness": read_table(
            folder / "attention" / "faithfulness.csv", "faithfulness", warnings
        ),
    }
    for kind, table in found.items():
        if table is not None:
            if run is not None:  # folders may have been renamed or copied since they were evaluated
                own = ~table["method"].map(is_baseline)
                table.loc[own, "run"] = run.name
                if kind == "episodes" and own.any() and "method" not in run.record:
                    run.method = str(table.loc[own, "method"].iloc[-1])
            tables[kind].append(table)


def _read_run(folder: Path, warnings: list[str]) -> Run:
    config = read_mapping(folder / "config.yaml", warnings)
    record = read_mapping(folder / "run.json", warnings)
    method = str(record.get("method") or method_name(config))
    try:
        seed = int(config.get("seed", 0))
    except (TypeError, ValueError):
        seed = 0
    run = Run(folder.resolve().name, folder, method, seed, config, record)
    if (folder / "metrics.csv").is_file():
        try:
            run.metrics = read_metrics(folder / "metrics.csv")
        except (ValueError, OSError) as error:
            warnings.append(f"{run.name}: metrics.csv cannot be read ({_short(error)}).")
    attention = folder / "attention"
    if attention.is_dir():
        files = sorted(p for p in attention.iterdir() if p.is_file())
        run.images = {p.stem: p for p in files if p.suffix.lower() in IMAGES}
        run.trends = {p.name.removesuffix(TREND): p for p in files if p.name.endswith(TREND)}
        run.videos = {p.stem: p for p in files if p.suffix == ".mp4"}
        labels = read_mapping(attention / "labels.json", warnings).get("labels", {})
        if isinstance(labels, Mapping):
            run.labels = {
                str(k): [str(i) for i in (v if isinstance(v, list) else [v])]
                for k, v in labels.items()
            }
    return run


def read_mapping(path: Path, warnings: list[str]) -> dict[str, Any]:
    """The settings in a YAML or JSON file; empty if there is none, with a warning if damaged."""
    if not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, OSError, yaml.YAMLError) as error:
        warnings.append(f"{path}: cannot be read ({_short(error)}).")
        return {}
    if not isinstance(value, dict):
        warnings.append(f"{path}: holds no settings.")
        return {}
    return value


def _distinguish(runs: list[Run], warnings: list[str]) -> None:
    """Runs of one method name with different settings get those settings into their names."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.method, []).append(run)
    for method, members in groups.items():
        settings = [method_settings(r.config) for r in members]
        keys = sorted(set().union(*settings))
        differing = [
            k for k in keys if len({json.dumps(s.get(k), default=str) for s in settings}) > 1
        ]
        if "total_steps" in differing and len(differing) == 1:
            warnings.append(f"{method}: its runs were trained for different numbers of steps.")
            continue
        for run, values in zip(members, settings, strict=True):
            extra = ", ".join(f"{k.removeprefix('algo.')}={values.get(k)}" for k in differing[:4])
            run.method += f" · {extra}" if extra else ""
        seeds = [(r.method, r.seed) for r in members]
        for name, seed in sorted({s for s in seeds if seeds.count(s) > 1}):
            warnings.append(f"{name}: several runs have seed {seed}; they count as one seed.")


def _check(runs: list[Run], episodes: pd.DataFrame, warnings: list[str]) -> None:
    games = sorted({r.game for r in runs})
    if len(games) > 1:
        warnings.append(
            f"these runs play different games ({', '.join(games)}): scores of "
            "different games are not comparable."
        )
    if episodes.empty:
        return
    counts = episodes[episodes["train_seed"] >= 0].groupby(
        ["run", "variant", "severity"], dropna=False
    )
    sizes = sorted(set(counts.size()))
    if len(sizes) > 1:
        warnings.append(
            f"runs were evaluated on between {sizes[0]} and {sizes[-1]} games a "
            "variant: each run's mean counts equally, whatever its number of games."
        )
    if not (episodes["method"] == "random").any():
        warnings.append(
            "the random player was not measured, so retention is unknown: "
            "reprl evaluate measures it along with the runs."
        )


def _concat(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
