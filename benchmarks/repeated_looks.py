"""How often seeds added until decided decide wrongly: the simulation behind docs/statistics.md.

`python -m benchmarks.repeated_looks` simulates `seeds=until_decided` with the variances measured in
results/methods and writes the tables of the page between its marks. Runs are (E, N) of E sweeps of
at most N seeds; every run plays games of its own. The rule itself is reprl.analysis.looks'.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from benchmarks.coverage import PAGE, RUNS, Variances, measured, replaced, typical
from reprl.analysis.looks import Design
from reprl.analysis.pairwise import LEVEL
from reprl.analysis.stats import Array
from reprl.disk import write_atomically
from reprl.rng import numpy_stream

GAMES = 100  # a run and variant
DESIGNS = ((3, 6), (3, 10), (5, 10), (3, 20))  # seeds at the first look, and at most
# the method, the baseline (both of the same mean) and how many times the baseline's spread is
CASES = (
    ("normal", "normal", 1),
    ("normal", "normal", 2),
    ("skewed", "skewed", 1),
    ("skewed", "skewed", 2),
    ("failing", "failing", 1),
    ("failing", "failing", 2),
    ("skewed", "normal", 1),
    ("failing", "normal", 1),
    ("failing", "skewed", 1),
)
EFFECTS = (1.0, 1.5, 2.0, 3.0)  # true differences, in standard deviations between runs


def design_of(first: int, most: int) -> Design:
    return Design(tuple(range(most)), first)


def scores(
    rng: np.random.Generator, kind: str, v: Variances, shape: tuple[int, int], factor: float = 1
) -> Array:
    """Mean scores of runs (E, N) around a true mean of 0."""
    make, mean = RUNS[kind]
    noise = rng.normal(0, np.sqrt((v.game + v.rest) / GAMES), shape)
    return np.asarray(make(rng, shape, factor * np.sqrt(v.run)) - mean + noise)


def welch(x: Array, y: Array, design: Design) -> tuple[Array, Array]:
    """Statistic and Welch's degrees of freedom (E, looks) at every look."""
    found, freedom = [], []
    for n in design.looks:
        a, b = x[:, :n], y[:, :n]
        va, vb = a.var(axis=1, ddof=1) / n, b.var(axis=1, ddof=1) / n
        found.append((a.mean(axis=1) - b.mean(axis=1)) / np.sqrt(va + vb))
        freedom.append((va + vb) ** 2 * (n - 1) / (va**2 + vb**2))
    return np.stack(found, axis=1), np.stack(freedom, axis=1)


def repeated(x: Array, y: Array, design: Design) -> Array:
    """reprl.analysis.looks.repeated_p after every look (E, looks), over all sweeps at once."""
    found, _ = welch(x, y, design)
    p = 2 * stats.t.sf(np.abs(found), np.array(design.looks) - 1)
    levels = np.array([design.level(n) for n in design.looks])
    return np.minimum.accumulate(np.minimum(LEVEL * p / levels, 1), axis=1)


def naive(x: Array, y: Array, design: Design) -> float:
    """How often some look is clear of 0 at 5 %, as if it were the only one."""
    found, freedom = welch(x, y, design)
    return float(np.mean((2 * stats.t.sf(np.abs(found), freedom) < LEVEL).any(axis=1)))


def false_positives(
    case: tuple[str, str, float], v: Variances, design: Design, sweeps: int
) -> tuple[float, float]:
    """How often two methods of one mean are told apart: by the rule, and by 5 % at every look."""
    first, second, factor = case
    rng = numpy_stream(0, "looks", first, second, str(factor), design.first, design.most)
    x = scores(rng, first, v, (sweeps, design.most))
    y = scores(rng, second, v, (sweeps, design.most), factor)
    return float(np.mean(repeated(x, y, design)[:, -1] < LEVEL)), naive(x, y, design)


def family(kind: str, v: Variances, design: Design, sweeps: int, claims: int = 3) -> float:
    """How often any of several claims against one baseline is decided, none of them true."""
    rng = numpy_stream(0, "looks", "family", kind, design.first, design.most)
    base = scores(rng, kind, v, (sweeps, design.most))
    made = [scores(rng, kind, v, (sweeps, design.most)) for _ in range(claims)]
    found = np.stack([repeated(x, base, design)[:, -1] for x in made], axis=1)
    return float(np.mean(found.min(axis=1) * claims < LEVEL))  # Holm's first step


def power(effect: float, design: Design, sweeps: int) -> tuple[float, float]:
    """How often a true difference is found, and how many seeds that takes on average."""
    rng = numpy_stream(0, "looks", "power", str(effect), design.first, design.most)
    shape = (sweeps, design.most)
    found = repeated(effect + rng.normal(0, 1, shape), rng.normal(0, 1, shape), design) < LEVEL
    seeds = np.array(design.looks)[found.argmax(axis=1)]
    return float(found[:, -1].mean()), float(np.where(found[:, -1], seeds, design.most).mean())


def tables(sweeps: int = 20_000) -> str:
    """The page's tables, in Markdown."""
    v = typical(measured())
    designs = [design_of(*d) for d in DESIGNS]
    heads = " | ".join(f"{d.first} to {d.most} seeds" for d in designs)
    rule = "---:|" * len(designs)
    lines = [
        f"{sweeps:,} sweeps a cell with the measured variances, {GAMES} games of its own a run. No "
        f"difference is true; in brackets what 5 % at every look would do:",
        "",
        f"| decided wrongly, % | {heads} |",
        f"|---|{rule}",
    ]
    for case in CASES:
        pairs = [false_positives(case, v, design, sweeps) for design in designs]
        row = " | ".join(f"{100 * ours:.1f} ({100 * theirs:.0f})" for ours, theirs in pairs)
        wide = f", {case[2]} times the spread" if case[2] != 1 else ""
        lines.append(f"| {case[0]} runs against {case[1]} ones{wide} | {row} |")
    for kind in RUNS:
        row = " | ".join(f"{100 * family(kind, v, d, sweeps):.1f}" for d in designs)
        lines.append(f"| any of three claims with one baseline, {kind} runs | {row} |")
    lines += ["", f"| found, % (after how many seeds) | {heads} |", f"|---|{rule}"]
    for effect in EFFECTS:
        got = [power(effect, design, sweeps) for design in designs]
        row = " | ".join(f"{100 * share:.0f} ({seeds:.1f})" for share, seeds in got)
        lines.append(f"| a true difference of {effect:g} standard deviations of runs | {row} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    made = tables()
    write_atomically(PAGE, replaced(PAGE.read_text(), made, "looks", "end looks"))
    print(made)


if __name__ == "__main__":
    main()
