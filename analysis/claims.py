"""Judges declared comparisons: held, refuted or undecided, and how many seeds would decide them.

The only tests of a report: Welch over whole runs on the mean of the held-out variants, in points,
Holm's correction over the declared claims. Everything else is exploratory and has no p.
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
from reprl.analysis.pairwise import LEVEL, Difference, difference, holm, seeds_needed
from reprl.analysis.tables import Column, Table, form
from reprl.claims import FILE, Claim, Claims, read_claims
from reprl.errors import UserError, nearest
from reprl.naming import is_baseline, trained_variants

POWER = 0.8
RULE = (
    "Declared before training: method minus baseline, mean of the held-out variants, Welch over "
    f"whole runs, Holm's correction over the declared ones, level {LEVEL:g}."
)
COLUMNS = (
    *("claim", "variants", "n_method", "n_baseline"),
    *("difference", "difference_low", "difference_high", "p", "verdict", "declared", "sentence"),
)


@dataclass(frozen=True)
class _Judged:
    claim: Claim
    method: str
    baseline: str
    variants: list[str]
    found: Difference
    spreads: tuple[float, float]  # standard deviations between runs
    declared: str


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


def claims_table(results: Results, files: Iterable[Claims]) -> Table:
    """One row per declared claim; what cannot be judged becomes a note of the report."""
    judged = []
    if not results.episodes.empty:
        table = played(results.episodes)
        for file in files:
            for claim in file.claims:
                one = _judge(results, table, file, claim)
                judged += [one] if one is not None else []
    tested = [one.found.p_value(one.claim.margin) for one in judged]
    known = [i for i, p in enumerate(tested) if np.isfinite(p)]
    adjusted = dict(zip(known, holm([tested[i] for i in known]), strict=True))
    rows = [_row(one, adjusted.get(i, np.nan), len(judged)) for i, one in enumerate(judged)]
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
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return Table("claims", "Declared claims", columns, frame, RULE)


def _judge(results: Results, table: Played, file: Claims, claim: Claim) -> _Judged | None:
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
    declared = _declared(file, own)
    return _Judged(
        claim, method, baseline, variants, difference(x, y), (spreads[0], spreads[1]), declared
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
    if len(found) == 1:
        return found.pop()
    hint = ""
    if found:
        problem = f"'{name}' is several methods here ({', '.join(sorted(found))})"
    else:
        problem, hint = f"there is no method '{name}' here", nearest(name, shown)
    results.warnings.append(f"{path}: {problem}, so its claim is not judged.{hint}")
    return None


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


def _row(one: _Judged, p: float, count: int) -> dict[str, object]:
    found, margin = one.found, one.claim.margin
    verdict = "undecided"
    if np.isfinite(p) and p < LEVEL:
        verdict = "held" if found.value > margin else "refuted"
    more = f" by more than {margin:g} points" if margin else ""
    claim = f"{one.method} beats {one.baseline}{more}"
    size = f"{'+' if found.value > 0 else ''}{form(found.value, 'score')}"
    if np.isfinite(found.low):
        size += f" [{form(found.low, 'score')}, {form(found.high, 'score')}]"
    sentence = f"{verdict.capitalize()}: {claim} on the mean of {', '.join(one.variants)} ({size}"
    sentence += f", p = {p:.3f}" if np.isfinite(p) else ""
    sentence += ")."
    if verdict == "undecided":
        sentence += " " + planned(one.found, one.spreads, margin, count)
    if one.declared != "before training":
        sentence += f" The claims file was {one.declared}."
    return {
        "claim": claim,
        "variants": ", ".join(one.variants),
        "n_method": found.n_first,
        "n_baseline": found.n_second,
        "difference": found.value,
        "difference_low": found.low,
        "difference_high": found.high,
        "p": p,
        "verdict": verdict,
        "declared": one.declared,
        "sentence": sentence,
    }


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
