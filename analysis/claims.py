"""Judges declared comparisons: held, refuted or undecided, and how many seeds would decide them.

The only tests of a report: Welch over whole runs on the mean of the held-out variants, in points,
Holm's correction over the declared claims. Everything else is exploratory and has no p. Where a
sweep added seeds until its claims were decided, each is judged by looks.py, look by look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from reprl.analysis.coverage import main_variants
from reprl.analysis.gap import Played, played
from reprl.analysis.load import Results, Run
from reprl.analysis.looks import Design, Look, Record, looks_at, repeated_p
from reprl.analysis.looks import read as read_looks
from reprl.analysis.pairwise import LEVEL, Difference, difference, holm, seeds_needed
from reprl.analysis.tables import Column, Table, form
from reprl.claims import FILE, Claim, Claims, read_claims
from reprl.config.compose import compose
from reprl.errors import UserError, nearest
from reprl.naming import is_baseline, parts_of, trained_variants

POWER = 0.8
RULE = (
    "Declared before training: method minus baseline, mean of the held-out variants, Welch over "
    f"whole runs, Holm's correction over the declared ones, level {LEVEL:g}."
)
REPEATED = (
    " Seeds were added until they were decided: intervals and p hold at every look at once "
    "(docs/statistics.md)."
)
COLUMNS = (
    *("claim", "variants", "n_method", "n_baseline"),
    *("difference", "difference_low", "difference_high", "p", "verdict", "declared", "sentence"),
    "looks",
)


@dataclass(frozen=True)
class Judged:
    """One declared comparison and what the games say of it."""

    claim: Claim
    method: str
    baseline: str
    variants: list[str]
    found: Difference
    spreads: tuple[float, float]  # standard deviations between runs
    declared: str
    design: Design | None = None  # of a sweep that adds seeds until it is decided
    looks: tuple[Look, ...] = ()  # at its games so far, with such a design

    @property
    def p(self) -> float:
        """Before Holm's correction; NaN where nobody can say yet."""
        if self.design is not None:
            return repeated_p(self.looks, self.design)
        return self.found.p_value(self.claim.margin)

    @property
    def words(self) -> str:
        """The claim itself."""
        margin = self.claim.margin
        more = f" by more than {margin:g} points" if margin else ""
        return f"{self.method} beats {self.baseline}{more}"

    def verdict(self, p: float) -> str:
        """held, refuted or undecided, by its p after Holm's correction."""
        if not (np.isfinite(p) and p < LEVEL):
            return "undecided"
        value = self.found.value
        if self.design is not None:  # the look that decided it, not a later one
            shares = [one.p / self.design.level(one.seeds) for one in self.looks]
            value = self.looks[int(np.nanargmin(shares))].found.value
        return "held" if value > self.claim.margin else "refuted"


def find_claims(folders: Iterable[Path], warnings: list[str]) -> list[Claims]:
    """The claims files in the folders of a report, each once; a wrong one is a note."""
    found: dict[str, Claims] = {}
    places = [Path(folder) for folder in folders]
    places += [place.resolve().parent for place in places if (place / "run.json").is_file()]
    for place in places:
        path = place / FILE
        if path.is_file():
            try:
                claims = read_claims(path)
            except UserError as error:
                warnings.append(f"{error}")
                continue
            found.setdefault(claims.digest, claims)
    return list(found.values())


def judge(results: Results, files: Iterable[Claims]) -> list[tuple[Judged, float, str]]:
    """Every claim that can be judged, its p after Holm's correction, and its verdict.

    What cannot be judged becomes a note of the report.
    """
    judged: list[Judged] = []
    files = list(files)
    if not results.episodes.empty:
        table = played(results.episodes)
        for file in files:
            record = _looks_of(file, results.warnings)
            for claim in file.claims:
                one = _judge(results, table, file, claim, record)
                judged += [one] if one is not None else []
    adjusted = _corrected([one.p for one in judged], sum(len(file.claims) for file in files))
    return [(one, p, one.verdict(p)) for one, p in zip(judged, adjusted, strict=True)]


def _corrected(found: list[float], declared: int) -> list[float]:
    """Each p after Holm's correction over all that was declared; NaN stays NaN.

    A claim without a p, or not judged at all, counts with a p of 1: a correction over those alone
    that could be judged would be weaker than the declared one.
    """
    known = [p for p in found if np.isfinite(p)]
    adjusted = iter(holm([*known, *[1.0] * (declared - len(known))]))
    return [next(adjusted) if np.isfinite(p) else np.nan for p in found]


def claims_table(results: Results, files: Iterable[Claims]) -> Table:
    """One row per declared claim; what cannot be judged becomes a note of the report."""
    judged = judge(results, files)
    rows = [_row(one, p, verdict, len(judged)) for one, p, verdict in judged]
    columns = [
        Column("claim", "Claim"),
        Column("variants", "On the mean of"),
        Column("n_method", "Seeds", "count"),
        Column("n_baseline", "Baseline's", "count"),
        Column("difference", "Difference", "score", "difference_low", "difference_high"),
        Column("p", "p (Holm)", "p"),
        Column("verdict", "Verdict"),
        Column("declared", "Declared"),
    ]
    repeated = any(one.design is not None for one, _, _ in judged)
    if repeated:
        columns.append(Column("looks", "Looked at"))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return Table("claims", "Declared claims", columns, frame, RULE + REPEATED * repeated)


def _looks_of(file: Claims, warnings: list[str]) -> Record | None:
    try:
        return read_looks(file.path.parent)
    except UserError as error:
        warnings.append(f"{error} Its claims are judged as if nobody had looked before.")
        return None


def _judge(
    results: Results, table: Played, file: Claims, claim: Claim, record: Record | None
) -> Judged | None:
    names = [_resolve(results, table, file.path, name) for name in (claim.method, claim.baseline)]
    if None in names:
        return None
    method, baseline = (str(name) for name in names)
    shared = main_variants(table.scores)
    met = {v for run in results.runs for v in trained_variants(run.config)}
    variants = list(claim.variants) or [v for v in shared if v not in met]
    lacking = [v for v in variants if v not in shared]
    if lacking or not variants:
        what = f"{', '.join(lacking)} was" if lacking else "no held-out variant was"
        results.warnings.append(
            f"{file.path}: {method} against {baseline} is not judged: {what} not played by every "
            "run."
        )
        return None
    x, y = table.sample(method, variants), table.sample(baseline, variants)
    spreads = [float(np.std(s.runs, ddof=1)) if len(s.runs) > 1 else np.nan for s in (x, y)]
    own = [run for run in results.runs if run.method in (method, baseline)]
    found, design = difference(x, y), None
    looks: tuple[Look, ...] = ()
    if record is not None:
        design = record.design
        looks = tuple(
            looks_at(
                table,
                design,
                method=method,
                baseline=baseline,
                variants=variants,
                margin=claim.margin,
            )
        )
        found = looks[-1].found if looks else found
    return Judged(
        claim,
        method,
        baseline,
        variants,
        found,
        (spreads[0], spreads[1]),
        _declared(file, own),
        design,
        looks,
    )


def _resolve(results: Results, table: Played, path: Path, name: str) -> str | None:
    """A method of the report by its name, the name its runs recorded, or their experiment."""
    shown = [m for m in table.methods() if not is_baseline(m)]
    if name in shown:
        return name
    found = {
        run.method
        for run in results.runs
        if name in (run.record.get("method"), run.record.get("experiment")) and run.method in shown
    }
    if len(found) > 1:
        found = _as_written(results.runs, name) & found or found
    if len(found) == 1:
        return found.pop()
    hint = ""
    if found:
        problem = f"'{name}' is several methods here ({', '.join(sorted(found))})"
    else:
        problem, hint = f"there is no method '{name}' here", nearest(name, shown)
    results.warnings.append(f"{path}: {problem}, so its claim is not judged.{hint}")
    return None


def _as_written(runs: Iterable[Run], experiment: str) -> set[str]:
    """Methods of the runs that trained an experiment of ours as its file says.

    `experiment=imitation augmentation=boxes` records that experiment too, and is another method.
    """
    try:
        written = parts_of(compose([f"experiment={experiment}"]))
    except UserError:  # a user's own, or of another version
        return set()
    return {run.method for run in runs if parts_of(run.config) == written}


def _declared(file: Claims, runs: list[Run]) -> str:
    """Whether the file is the one the runs were started with."""
    digests = []
    for run in runs:
        record = run.record.get("claims")
        digests.append(record.get("sha256") if isinstance(record, dict) else None)
    edited = sum(d is not None and d != file.digest for d in digests)
    without = sum(d is None for d in digests)
    if edited:
        return f"edited after {edited} of {len(runs)} runs had started"
    if without:
        return f"written after {without} of {len(runs)} runs had started"
    return "before training"


def _row(one: Judged, p: float, verdict: str, count: int) -> dict[str, object]:
    found = one.found
    low, high = found.low, found.high
    if one.design is not None:
        last = one.looks[-1] if one.looks else None
        low, high = (last.low, last.high) if last else (np.nan, np.nan)
    return {
        "claim": one.words,
        "variants": ", ".join(one.variants),
        "n_method": found.n_first,
        "n_baseline": found.n_second,
        "difference": found.value,
        "difference_low": low,
        "difference_high": high,
        "p": p,
        "verdict": verdict,
        "declared": one.declared,
        "sentence": sentence(one, p, verdict, count),
        "looks": _looked(one),
    }


def sentence(one: Judged, p: float, verdict: str, count: int) -> str:
    """A claim's verdict in words; `count` claims are declared."""
    found = one.found
    low, high = found.low, found.high
    if one.design is not None and one.looks:
        low, high = one.looks[-1].low, one.looks[-1].high
    size = f"{'+' if found.value > 0 else ''}{form(found.value, 'score')}"
    if np.isfinite(low):
        size += f" [{form(low, 'score')}, {form(high, 'score')}]"
    text = f"{verdict.capitalize()}: {one.words} on the mean of {', '.join(one.variants)} ({size}"
    text += f", p = {p:.3f}" if np.isfinite(p) else ""
    text += f"; {_looked(one)})." if one.looks else ")."
    if verdict == "undecided":
        text += " " + (
            planned(found, one.spreads, one.claim.margin, count)
            if one.design is None
            else _next_look(one, one.design)
        )
    if one.declared != "before training":
        text += f" The claims file was {one.declared}."
    return text


def _looked(one: Judged) -> str:
    if one.design is None or not one.looks:
        return ""
    at = one.looks[-1].seeds
    times = f"look {len(one.looks)} of at most {len(one.design.looks)}"
    return f"{times}, {at} seeds each of at most {one.design.most}"


def _next_look(one: Judged, design: Design) -> str:
    there = one.looks[-1].seeds if one.looks else 0
    if there == design.most:
        return f"All {design.most} seeds are used: it stays undecided."
    then = max(there + 1, design.first)
    return f"The next look is at {then} seeds of each."


def planned(found: Difference, spreads: tuple[float, float], margin: float, count: int) -> str:
    """How many more seeds would decide an undecided claim, were the difference what it looks."""
    if min(found.n_first, found.n_second) < 2:
        return "It needs at least two seeds of each method."
    need = seeds_needed(found.value - margin, *spreads, level=LEVEL / count, power=POWER)
    if need is None:
        return "So small a difference would take more than a thousand seeds to decide."
    more = max(need - min(found.n_first, found.n_second), 1)
    return (
        f"{more} more seed{'s' * (more != 1)} of each would decide it with power {POWER:g}, if the "
        "difference is as large as it looks."
    )
