"""What methods are called in a report: results -> **names** -> every table, plot and sentence.

A method has the name of its experiment, where all its runs agree on one, or else the one its runs
recorded; what is common to all names is dropped, and no two are alike. CSV files keep `method` as
it was recorded, so that they can be joined with the games.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from reprl.analysis.load import Results, Run
from reprl.errors import UserError, nearest
from reprl.naming import is_baseline, is_plain
from reprl.schema import MEASURED

SETTINGS = " · "  # what load.py puts between a method and the settings that tell it apart
PLAIN = "plain"


def parse_names(pairs: Sequence[str]) -> dict[str, str]:
    """`a:b` -> {a: b}; the last colon separates, since a method may have one in its name."""
    out: dict[str, str] = {}
    for pair in pairs:
        old, colon, new = (part.strip() for part in pair.rpartition(":"))
        if not colon or not old or not new:
            raise UserError(
                f"names={pair}: give each name as METHOD:NAME, with commas between several."
            )
        if old in out:
            raise UserError(f"names= gives {old} two names, {out[old]} and {new}.")
        out[old] = new
    return out


def display_names(runs: Sequence[Run], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Method -> its name in the report; a name given by the user is kept as it is."""
    methods = list(dict.fromkeys(run.method for run in runs))
    called = {m: _called(m, [r for r in runs if r.method == m]) for m in methods}
    if len(set(called.values())) < len(methods):  # an experiment of several methods: no name
        twice = [n for n in called.values() if list(called.values()).count(n) > 1]
        called = {m: m if n in twice else n for m, n in called.items()}
    plain = {run.method for run in runs if is_plain(run.config)}
    names = dict(zip(methods, _shortened(list(called.values())), strict=True))
    names = {m: n or (PLAIN if m in plain else called[m]) for m, n in names.items()}
    if len(set(names.values())) < len(methods) or any(map(is_baseline, names.values())):
        names = called
    if len(set(names.values())) < len(methods) or any(map(is_baseline, names.values())):
        names = {m: m for m in methods}
    return _with_given(names, called, runs, given or {})


def _called(method: str, runs: Sequence[Run]) -> str:
    """The experiment's name, with the settings that distinguish the method; else the method."""
    experiments = {str(run.record.get("experiment") or "") for run in runs}
    experiment = experiments.pop() if len(experiments) == 1 else ""
    _, separator, settings = method.partition(SETTINGS)
    return f"{experiment}{separator}{settings}" if experiment else method


def _shortened(names: Sequence[str]) -> list[str]:
    """Names without the words all of them begin or end with; one name alone stays whole."""
    if len(names) < 2:
        return list(names)
    words = [re.findall(r"[^-_+\s]+|[-_+\s]+", name) for name in names]
    first = len(list(takewhile(lambda w: len(set(w)) == 1, zip(*words, strict=False))))
    rest = [w[first:] for w in words]
    back = [list(reversed(w)) for w in rest]
    last = len(list(takewhile(lambda w: len(set(w)) == 1, zip(*back, strict=False))))
    middle = [w[: len(w) - last] for w in rest]
    return [re.sub(r"^[-_+\s]+|[-_+\s]+$", "", "".join(w)) for w in middle]


def _with_given(
    names: dict[str, str], called: dict[str, str], runs: Sequence[Run], given: Mapping[str, str]
) -> dict[str, str]:
    """A user may name a method by what the report, its runs or its experiment call it."""
    out = dict(names)
    for old, new in given.items():
        found = {m for m in names if old in (names[m], called[m], m)}
        found |= {
            r.method
            for r in runs
            if old in (r.record.get("method"), r.record.get("experiment")) and not found
        }
        if not found:
            raise UserError(
                f"names={old}:{new}: there is no method '{old}' here: choose from "
                f"{', '.join(names.values())}.{nearest(old, names.values())}"
            )
        if len(found) > 1:
            raise UserError(
                f"names={old}:{new}: '{old}' is several methods here "
                f"({', '.join(sorted(names[m] for m in found))})."
            )
        if is_baseline(new):
            raise UserError(f"names={old}:{new}: '{new}' is the name of an untrained player.")
        out[found.pop()] = new
    for name in out.values():
        if list(out.values()).count(name) > 1:
            raise UserError(f"names=: two methods would be called '{name}'.")
    return out


def renamed(results: Results, names: Mapping[str, str]) -> Results:
    """The results under other names; untrained players keep theirs."""
    runs = [replace(run, method=names.get(run.method, run.method)) for run in results.runs]
    frames = {}
    for kind in MEASURED:
        frame = getattr(results, kind)
        if len(frame):
            own = frame["method"].map(lambda m: m if is_baseline(m) else names.get(m, m))
            frame = frame.assign(method=own)
        frames[kind] = frame
    return replace(results, runs=runs, **frames)
