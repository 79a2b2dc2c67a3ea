"""Runs as a paper's appendix needs them: settings, games and curves, without traces of a machine.

`reprl runs DIR export=results/NAME` -> a folder that `reprl runs` and `reprl report` read like the
original, small enough for a repository: pictures of attention and recorded games are kept, events
and videos are not, and of the checkpoints at most the weights of the newest (`weights=true`), with
which an agent plays elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from reprl import guard
from reprl.disk import replacing, write_atomically
from reprl.errors import UserError
from reprl.runs.folder import RunFolder
from reprl.tables import read_rows, write_rows

TABLES = (
    *("evaluation/episodes.csv", "evaluation/validation.csv", "evaluation/twin.csv"),
    *("attention/scores.csv", "attention/faithfulness.csv", "attention/labels.json"),
)
PICTURES = (
    *("attention/*.png", "attention/*.svg"),
    *("evaluation/film/*.webp", "evaluation/film/*.json"),
)
DECLARED = ("claims.yaml", "looks.json")  # what was declared, and when somebody looked
BASELINES = "baselines/evaluation/episodes.csv"
OF_THE_MACHINE = ("host", "pid", "job", "python_path")
SMALL = 1_000_000  # bytes; of a longer metrics.csv only the curves are kept
CURVES = ("step", "rollout/", "validation/", "time/elapsed")
# An absolute path, also behind key= or file://; the slash in a/b or 1/2 does not begin one.
ABSOLUTE = re.compile(r"(?:file://)?(?<![\w.~*)\]])~?(?:/[^\s/'\",;:=\])]+)+/?")


def publish(
    runs: Sequence[RunFolder], place: Path, target: Path, *, weights: bool = False
) -> list[Path]:
    """Copy runs below `place` to `target`, each under its own name; the copies' folders.

    With `weights` each copy holds the newest checkpoint as an agent that only plays.
    """
    if target.resolve() == place.resolve() or place.resolve() in target.resolve().parents:
        raise UserError(f"export={target} lies in {place}: choose a folder outside of it.")
    if any(part.is_file() for part in (target, *target.parents)):
        raise UserError(f"export={target} is no folder: a file of that name is in the way.")
    copies = []
    for run in runs:
        inside = run.path.relative_to(place) if run.path != place else Path(run.path.name)
        copies.append(_copy(run, target / inside))
        if weights:
            from reprl import checkpoint

            checkpoint.save_weights(checkpoint.read(run.path), copies[-1])
    # players without training stand beside the runs they were measured with
    for source in {run.path.parent for run in runs} | {run.path for run in runs}:
        guard.inspect(source, without=("checkpoints",))
        if (source / BASELINES).is_file() and source.is_relative_to(place):
            _copy_table(source / BASELINES, target / source.relative_to(place) / BASELINES)
        for name in DECLARED if source.is_relative_to(place) else ():
            if (source / name).is_file():  # or a report of the copy would judge other claims
                _copy_table(source / name, target / source.relative_to(place) / name)
    return copies


def _copy(run: RunFolder, copy: Path) -> Path:
    record = run.record()
    if copy.is_dir():
        guard.inspect(copy)  # what is there already may be a stranger's too
    there = copy / "run.json"
    if there.exists() and RunFolder(copy).record().get("id") != record.get("id"):
        raise UserError(f"{copy} already holds another run: choose a new folder to export to.")
    copy.mkdir(parents=True, exist_ok=True)
    config = scrub(run.settings())
    text = yaml.safe_dump(config, sort_keys=False, default_flow_style=None, width=100)
    write_atomically(copy / "config.yaml", text)
    kept = {key: value for key, value in record.items() if key not in OF_THE_MACHINE}
    kept["status"] = run.status()  # a run that was killed could not write it
    write_atomically(there, json.dumps(scrub(kept), indent=1) + "\n")
    for name in TABLES:
        if (run.path / name).is_file():
            _copy_table(run.path / name, copy / name)
    for pattern in PICTURES:
        for file in sorted(run.path.glob(pattern)):
            _copy_table(file, copy / file.relative_to(run.path))
    if run.metrics_file.is_file():
        _copy_metrics(run.metrics_file, copy / "metrics.csv")
    return copy


def _copy_table(source: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    with replacing(copy) as draft:
        draft.write_bytes(guard.read_bytes(source))


def _copy_metrics(source: Path, copy: Path) -> None:
    if source.stat().st_size <= SMALL:
        _copy_table(source, copy)
        return
    rows = read_rows(source)
    columns = [name for name in rows[0] if name.startswith(CURVES)]
    write_rows(copy, columns, rows)


def scrub(value: Any) -> Any:
    """The same value with every absolute path cut down to its last name."""
    if isinstance(value, str):
        return ABSOLUTE.sub(lambda path: Path(path[0]).name, value)
    if isinstance(value, Mapping):
        return {key: scrub(item) for key, item in value.items()}
    if isinstance(value, list):
        return [scrub(item) for item in value]
    return value


def size(folder: Path) -> int:
    """Bytes of everything in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
