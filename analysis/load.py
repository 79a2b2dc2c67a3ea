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

from reprl import guard
from reprl.analysis.coverage import notes
from reprl.analysis.gap import SCALE
from reprl.analysis.grouping import distinguish, of_one_game, reported_game
from reprl.analysis.random_play import with_measured
from reprl.analysis.several_games import over_games
from reprl.analysis.tidy import one_protocol, read_table, tidy_episodes
from reprl.envs.defaults import DEFAULT_GAME
from reprl.envs.games import Game, known_games
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.naming import is_baseline, method_name, variant_label
from reprl.runs.places import game_at
from reprl.schema import FILES, MEASURED, is_open
from reprl.settings import SCORE_SCALE
from reprl.tables import read_numbers

SKIPPED = {"checkpoints", "tensorboard", "wandb", "attention", "evaluation"}
LOOKS = ("attention", "faithfulness", "probes", "layers", "interventions", "breaking")
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
        return str(env.get("game", DEFAULT_GAME)) if isinstance(env, Mapping) else DEFAULT_GAME

    @property
    def score_scale(self) -> float:
        """What it recorded of its game; the module of a user's own game is not imported here."""
        known = known_games().get(self.game, Game)
        try:
            return float(SCORE_SCALE.checked(SCALE, self.record.get(SCALE, known.score_scale)))
        except UserError:
            return known.score_scale


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
    games: int = 0  # played in these folders: the shipped games of random play are not among them
    probes: pd.DataFrame = field(default_factory=pd.DataFrame)
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    interventions: pd.DataFrame = field(default_factory=pd.DataFrame)
    breaking: pd.DataFrame = field(default_factory=pd.DataFrame)
    several: pd.DataFrame = field(default_factory=pd.DataFrame)  # methods over several games
    game: str = DEFAULT_GAME  # the one that is reported in full


def collect(folders: Iterable[Path | str], *, random_play: bool = True) -> Results:
    """Read all runs below the folders; only folders without any run at all are an error.

    `random_play` takes the shipped games of random play where the folders have fewer.
    """
    roots = [Path(f) for f in folders]
    warnings: list[str] = []
    runs: list[Run] = []
    tables: dict[str, list[pd.DataFrame]] = {kind: [] for kind in MEASURED}
    seen: set[Path] = set()
    refused: list[str] = []
    for root in roots:
        before = len(seen)
        for folder in _folders_with_results(root):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                try:
                    guard.inspect(folder, without=("checkpoints",))
                except UserError as error:
                    refused.append(str(error))
                    warnings.append(f"{folder} is left out: {error}")
                    continue
                _read_folder(folder, root, runs, tables, warnings)
        if len(seen) == before:
            warnings.append(f"{root}: no run folder in it (none has config.yaml), skipped.")
    if not runs and not tables["episodes"]:
        if refused:
            raise UserError(refused[0])
        names = ", ".join(f"'{r}'" for r in roots)
        raise UserError(
            f"no runs in {names}: a run folder has a config.yaml, as written by reprl train."
        )
    several = over_games(runs, tables["episodes"])
    runs = of_one_game(runs, tables, warnings)
    episodes = tidy_episodes(_concat(tables["episodes"]), warnings)
    count = len(episodes)
    game = reported_game(runs, tables["episodes"])
    if random_play:
        episodes = with_measured(episodes, game)
    episodes[SCALE] = runs[0].score_scale if runs else known_games().get(game, Game).score_scale
    distinguish(runs, warnings)
    names_of = {run.name: run.method for run in runs}
    twin = one_protocol(_concat(tables["twin"]), warnings, "twin evaluations")
    if "severity" in twin:
        levels = pd.to_numeric(twin["severity"], errors="coerce")
        twin["variant"] = list(map(variant_label, twin["variant"], levels))
    looks = {kind: _concat(tables[kind]) for kind in LOOKS}
    frames = [episodes, twin, *looks.values()]
    for frame in frames:
        if not frame.empty and names_of:
            own = ~frame["method"].map(is_baseline)  # a run's folder may be called "random"
            frame.loc[own, "method"] = frame["run"].map(names_of).fillna(frame["method"])[own]
    warnings += notes(frames[0])
    return Results(
        runs,
        episodes,
        twin,
        warnings=warnings,
        folders=roots,
        games=count,
        several=several,
        game=game,
        **looks,
    )


def _folders_with_results(root: Path) -> Iterator[Path]:
    for place, children, files in os.walk(root):
        folder = Path(place)
        is_run = "config.yaml" in files and ({"run.json", "metrics.csv"} & set(files))
        if is_run or (folder / FILES["episodes"]).is_file():
            yield folder
        children[:] = sorted(c for c in children if c not in SKIPPED and not c.startswith("."))


def _read_folder(
    folder: Path,
    root: Path,
    runs: list[Run],
    tables: dict[str, list[pd.DataFrame]],
    warnings: list[str],
) -> None:
    found = {kind: read_table(folder / FILES[kind], kind, warnings) for kind in MEASURED}
    run = None
    if (folder / "config.yaml").is_file():
        run = _read_run(folder, warnings)
        taken = {r.name for r in runs}
        if run.name in taken:
            run.name = shown(f"{folder.parent.name}/{folder.name}")
        while run.name in taken:
            run.name += "'"
        if found["episodes"] is None:
            warnings.append(
                f"{run.name}: not evaluated yet, so it has a learning curve but no scores "
                f"(reprl evaluate {folder})."
            )
        runs.append(run)
    for kind, table in found.items():
        if table is not None:
            if run is not None:  # folders may have been renamed or copied since they were evaluated
                own = ~table["method"].map(is_baseline)
                table.loc[own, "run"] = run.name
                if kind == "episodes" and own.any() and "method" not in run.record:
                    run.method = str(table.loc[own, "method"].iloc[-1])
            table.attrs["folder"] = folder
            table.attrs["game"] = run.game if run is not None else _game_beside(folder)
            tables[kind].append(table)


def _game_beside(folder: Path) -> str | None:
    """The game in a folder without a run, where it was written down: a model's, its baselines'."""
    home = folder.parent if folder.name == "baselines" else folder
    return None if (home / "config.yaml").is_file() else game_at(home)


def _read_run(folder: Path, warnings: list[str]) -> Run:
    config = read_mapping(folder / "config.yaml", warnings)
    record = read_mapping(folder / "run.json", warnings)
    method = shown(record.get("method") or method_name(config))
    try:
        seed = int(config.get("seed", 0))
    except (TypeError, ValueError):
        seed = 0
    run = Run(shown(folder.resolve().name), folder, method, seed, config, record)
    if (folder / "metrics.csv").is_file():
        try:
            run.metrics = read_numbers(folder / "metrics.csv")
        except (ValueError, OSError) as error:
            warnings.append(f"{run.name}: metrics.csv cannot be read ({_short(error)}).")
    attention = folder / "attention"
    if attention.is_dir():
        # a hidden one is what a killed process left half written
        files = sorted(p for p in attention.iterdir() if p.is_file() and p.name[0] != ".")
        known = read_mapping(attention / "labels.json", warnings)
        named = _variants_of(known.get("about"))
        for path in files:
            variant = path.name.removesuffix(TREND) if path.name.endswith(TREND) else path.stem
            variant = named.get(variant, variant)
            if path.suffix.lower() in IMAGES:
                run.images[variant] = path
            elif path.name.endswith(TREND):
                run.trends[variant] = path
            elif path.suffix == ".mp4":
                run.videos[variant] = path
        labels = known.get("labels", {})
        if isinstance(labels, Mapping):
            run.labels = {
                named.get(str(k), str(k)): [str(i) for i in (v if isinstance(v, list) else [v])]
                for k, v in labels.items()
            }
            _name_open(run.labels, known.get("about"))
    return run


def _name_open(labels: dict[str, list[str]], about: Any) -> None:
    """Label masks that let everything through, of runs from before there was a word for it."""
    for one in about.values() if isinstance(about, Mapping) else ():
        if not isinstance(one, Mapping) or str(one.get("variant")) not in labels:
            continue
        found = labels[str(one["variant"])]
        mean, entropy = one.get("mean"), one.get("entropy")
        if isinstance(mean, int | float) and isinstance(entropy, int | float):
            known = {"black", "saturated", "open"} & set(found)
            if not known and is_open(mean, entropy):
                found[:] = ["open", *(label for label in found if label != "flat")]


def _variants_of(about: Any) -> dict[str, str]:
    """File name -> variant: a user's own has signs in its name that a file name cannot have."""
    if not isinstance(about, Mapping):
        return {}
    known = {
        str(k): v["variant"] for k, v in about.items() if isinstance(v, Mapping) and "variant" in v
    }
    return {name: str(variant) for name, variant in known.items()}


def read_mapping(path: Path, warnings: list[str]) -> dict[str, Any]:
    """The settings in a YAML or JSON file; empty if there is none, with a warning if damaged."""
    if not path.is_file():
        return {}
    try:
        text = guard.read_text(path)
        value = json.loads(text) if path.suffix == ".json" else guard.load_yaml(text)
    except (ValueError, OSError, yaml.YAMLError, RecursionError) as error:
        warnings.append(f"{path}: cannot be read ({_short(error)}).")
        return {}
    if not isinstance(value, dict):
        warnings.append(f"{path}: holds no settings.")
        return {}
    return value


def _concat(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
