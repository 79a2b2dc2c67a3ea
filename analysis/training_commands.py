"""The commands that trained the runs, as a person would type them: a sweep is one `train -m`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from math import prod
from pathlib import Path

from reprl.analysis.load import Run, read_mapping

INTERNAL = ("--sweep-name=", "progress=off")  # how a sweep starts its jobs
BY_DEFAULT = ("threads=1", "env.workers=0")  # what `train -m` sets by itself
PLAIN = re.compile(r"run_dir='([\w./+@-]+)'")  # quoted for Hydra without need


def training(runs: Sequence[Run], warnings: list[str]) -> list[str]:
    """Every distinct training command; jobs of one sweep are put together again."""
    lines: list[str] = []
    sweeps: dict[Path, list[list[str]]] = {}
    for run in runs:
        command = run.record.get("command")
        words = _words(command)
        if words[:2] != ["reprl", "train"]:  # people copy what stands here into a shell
            if command:
                warnings.append(f"{run.name}: its recorded command is none of reprl train.")
            continue
        if any(word.startswith("--sweep-name=") for word in words):
            sweeps.setdefault(run.path.parent, []).append(words)
        else:
            lines.append(shlex.join(words))
    for folder, commands in sweeps.items():
        lines += _sweep(folder, commands, warnings)
    return [line for line in dict.fromkeys(lines) if line]


def _words(command: object) -> list[str]:
    """A recorded command as words, whatever a shell would have made of its signs."""
    if isinstance(command, list):
        return [str(word) for word in command]
    try:
        return shlex.split(str(command or ""))
    except ValueError:
        return []


def _sweep(folder: Path, commands: list[list[str]], warnings: list[str]) -> list[str]:
    """One line if the jobs are a full product of their values, else one line a job."""
    kept = [
        [PLAIN.sub(r"run_dir=\1", w) for w in c if not w.startswith(INTERNAL)] for c in commands
    ]
    jobs = _planned(folder, warnings) or [_overrides(c) for c in kept]
    together = combined(jobs)
    if together is None or len(jobs) < 2:
        return [shlex.join(c) for c in kept]
    options = [w for w in kept[0] if w.startswith("--")]
    places = [w.removeprefix("run_dir=").strip("'") for w in kept[0] if w.startswith("run_dir=")]
    place = [f"run_dir={Path(p).parent}" for p in places]
    own = [o for o in together if o not in BY_DEFAULT]
    return [shlex.join(["reprl", "train", "-m", *own, *place, *options])]


def _planned(folder: Path, warnings: list[str]) -> list[list[str]]:
    """The overrides of all jobs of a sweep, also of those that have not started yet."""
    jobs = read_mapping(folder / "ledger.json", warnings).get("jobs")
    entries = list(jobs.values()) if isinstance(jobs, dict) else []
    found = [entry.get("overrides") if isinstance(entry, dict) else None for entry in entries]
    planned = [[str(o) for o in job] for job in found if isinstance(job, list) and job]
    return planned if len(planned) == len(found) else []  # all of them, or the sweep is another


def _overrides(command: list[str]) -> list[str]:
    return [w for w in command if "=" in w and not w.startswith(("--", "run_dir="))]


def combined(jobs: Sequence[Sequence[str]]) -> list[str] | None:
    """One override a key with all its values; None unless the jobs are exactly their product."""
    tables = [dict(_pair(override) for override in job) for job in jobs]
    keys = list(tables[0])
    if any(list(t) != keys or len(t) != len(job) for t, job in zip(tables, jobs, strict=True)):
        return None
    values = {key: list(dict.fromkeys(table[key] for table in tables)) for key in keys}
    distinct = {tuple(table.values()) for table in tables}
    if not len(distinct) == len(jobs) == prod(map(len, values.values())):
        return None
    return [f"{key}={','.join(found)}" for key, found in values.items()]


def _pair(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key, value
