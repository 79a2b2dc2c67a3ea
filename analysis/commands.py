"""The commands that make the same runs, games, measurements and report again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from reprl.analysis.gap import prepare
from reprl.analysis.load import Results, Run
from reprl.analysis.measured import last_step, with_usual
from reprl.analysis.tables import as_number
from reprl.analysis.tidy import protocols
from reprl.analysis.training_commands import training
from reprl.naming import is_baseline, parts_of, variant_label
from reprl.schema import LOOKS_EVERY


def commands(results: Results, out: str) -> list[str]:
    """Report first, then evaluation, twins and attention, then what trained the runs."""
    target = [] if out == "report" else [f"out={out}"]
    lines = [_line("report", *map(str, results.folders), *target)]
    for folder in results.folders:
        lines += [*_evaluations(results, folder), *_twins(results, folder)]
        lines += _attention(results, folder)
    return lines + training(results.runs, results.warnings)


def _line(*words: str) -> str:
    return shlex.join(["reprl", *(w for w in words if w)])


def _below(frame: pd.DataFrame, results: Results, folder: Path) -> pd.DataFrame:
    """The rows of trained agents in the folder; of a run nobody knows, it may be in any."""
    root = folder.resolve()
    elsewhere = {r.name for r in results.runs if not r.path.resolve().is_relative_to(root)}
    return frame[~frame["run"].isin(elsewhere) & ~frame["method"].map(is_baseline)]


def _protocol(frame: pd.DataFrame, seed: float) -> list[str]:
    """Seed, games, greediness and stickiness, where they are not the usual; all rows share them."""
    greedy, sticky, own = protocols(frame).iloc[0]
    return [
        f"seed={seed:.0f}" if seed > 0 else "",
        "" if own else "games=shared",
        "deterministic=true" if greedy else "",
        f"sticky={sticky:g}" if sticky else "",
    ]


def _batches(frame: pd.DataFrame) -> Iterator[tuple[float, int, list[str]]]:
    """(seed, rows a run and variant, variants): what one command each has measured."""
    seeds = pd.to_numeric(frame.get("eval_seed", pd.Series(0, frame.index)), errors="coerce")
    for seed, part in frame.groupby(seeds.fillna(0)):
        sizes = part.groupby(["variant", "run"], sort=False).size().groupby("variant", sort=False)
        counts = sizes.max()
        for count in dict.fromkeys(counts):
            yield as_number(seed), int(count), [str(v) for v in counts.index[counts == count]]


def _evaluations(results: Results, folder: Path) -> Iterator[str]:
    if results.episodes.empty:
        return
    games = prepare(results.episodes)
    own, players = _below(games, results, folder), games[games["method"].map(is_baseline)]
    for seed, count, variants in _batches(own):
        same = (players["eval_seed"].fillna(0) == seed) & players["variant"].isin(variants)
        yield _line(
            "evaluate",
            str(folder),
            f"variants={','.join(variants)}",
            f"episodes={count}",
            _agents(dict.fromkeys(players.loc[same, "method"])),
            _checkpoint(own, results.runs),
            *_protocol(own, seed),
        )


def _checkpoint(measured: pd.DataFrame, runs: list[Run]) -> str:
    """Which checkpoint was measured, where it was not the newest of every run."""
    known = {run.name: run.record for run in runs}
    steps = pd.to_numeric(measured.get("step", pd.Series(dtype=float)), errors="coerce")
    best = {n: b.get("step") for n, r in known.items() if isinstance(b := r.get("best"), dict)}
    found = [
        (step, known[name].get("step"), best.get(name))
        for name, step in steps.groupby(measured["run"]).max().items()
        if name in known and pd.notna(step)
    ]
    if all(newest in (None, step) for step, newest, _ in found):
        return ""
    if all(chosen == step for step, _, chosen in found):
        return "checkpoint=best"
    same = {step for step, _, _ in found}
    return f"checkpoint={same.pop():.0f}" if len(same) == 1 else ""


def _agents(methods: Iterable[str]) -> str:
    """`scripted skill=0.8 blind_to=ball` is asked for as scripted@0.8:ball; random is usual."""
    names = []
    for method in methods:
        name, *rest = method.split()
        words = dict(word.split("=", 1) for word in rest if "=" in word)
        skill = f"@{words['skill']}" if "skill" in words else ""
        blind = f":{words['blind_to']}" if "blind_to" in words else ""
        names.append(f"{name}{skill}{blind}")
    if names == ["random"]:
        return ""
    return f"agents={','.join(names) or 'none'}"


def _twins(results: Results, folder: Path) -> Iterator[str]:
    if results.twin.empty:
        return
    twin = last_step(_below(results.twin, results, folder))
    levels = twin.get("severity", pd.Series(None, twin.index))
    names = [variant_label(v, as_number(s)) for v, s in zip(twin["variant"], levels, strict=True)]
    twin = twin.assign(variant=names)
    for seed, count, variants in _batches(twin):
        chosen = f"variants={','.join(variants)}"
        protocol = [_checkpoint(twin, results.runs), *_protocol(twin, seed)]
        yield _line("evaluate", str(folder), "twin=true", chosen, f"steps={count}", *protocol)


def _attention(results: Results, folder: Path) -> Iterator[str]:
    """One command per view, length and extra; scores.csv does not hold the seed."""
    if results.attention.empty:
        return
    runs = {run.name: run for run in results.runs}
    tested = results.faithfulness
    faithful = set() if tested.empty else set(zip(tested["run"], tested["variant"], strict=True))
    groups: dict[tuple[str, ...], list[str]] = {}
    looked = with_usual(_below(results.attention, results, folder))
    for keys, part in looked.groupby(["run", "variant", "view", "player"], sort=False):
        name, variant, view, player = map(str, keys)
        run, frames = runs.get(name), part["n_frames"].max()
        trend = run is not None and variant in run.trends
        masked = run is not None and parts_of(run.config)["attention"] != "none"
        options: tuple[str, ...] = (
            f"method={view}" if view != ("mask" if masked else "gradient") else "",
            f"player={player}" if player != "agent" else "",
            f"steps={frames * LOOKS_EVERY.get(view, 1):.0f}" if frames > 0 else "",
            "" if trend else _checkpoint(last_step(part), results.runs),
            "over_training=true" if trend else "",
            "faithfulness=true" if (name, variant) in faithful else "",
        )
        groups.setdefault(options, []).append(variant)
    for options, variants in groups.items():
        yield _line(
            "attention", str(folder), f"variant={','.join(dict.fromkeys(variants))}", *options
        )
