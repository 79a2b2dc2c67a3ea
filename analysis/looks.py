"""Declared comparisons judged again and again while seeds are added: what each look may spend.

`reprl train -m seeds=until_decided` looks after every seed, and each look is a chance to be wrong.
Look at n of at most N seeds may be wrong with probability SPENT * (n^2 - m^2) / N^2, where m is
the look before (0 before the first): the shares add up to SPENT, so that whatever the looks have
in common, the sum of their chances (the union bound) is at most that. Each look is Welch's
difference with the degrees of freedom of the smaller group alone (n - 1), which hold without
equal spreads. docs/statistics.md has the simulation; everything here is a function of the games
that were played and of a Design fixed before the first look.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from reprl import guard
from reprl.analysis.gap import Played
from reprl.analysis.pairwise import LEVEL, Difference, difference
from reprl.analysis.stats import satterthwaite
from reprl.disk import write_atomically
from reprl.errors import UserError

FILE = "looks.json"
VERSION = 1
SPENT = 0.03  # less than LEVEL: the rest is for skewed runs and failures that nobody has seen yet
MOST = 1000  # seeds of a design


@dataclass(frozen=True)
class Design:
    """Which seeds there may be, in the order in which they are trained, and how many at first."""

    seeds: tuple[int, ...]
    first: int

    @property
    def most(self) -> int:
        return len(self.seeds)

    @property
    def looks(self) -> range:
        """The numbers of seeds that are looked at."""
        return range(self.first, self.most + 1)

    def level(self, count: int) -> float:
        """How often the look at this many seeds may be wrong."""
        before = 0 if count == self.first else count - 1
        return SPENT * (count**2 - before**2) / self.most**2


@dataclass(frozen=True)
class Look:
    """One comparison at one number of seeds of each method."""

    seeds: int
    found: Difference
    p: float  # of this look alone
    low: float  # the interval that holds at every look at once
    high: float


def look(found: Difference, margin: float, design: Design) -> Look:
    """A difference of equally many seeds, as one of the looks of a design."""
    count = min(found.n_first, found.n_second)
    variance = satterthwaite(found.parts)[0] if found.parts else np.nan
    if not np.isfinite([found.value, variance]).all():
        return Look(count, found, np.nan, np.nan, np.nan)
    if variance <= 0:  # every run of both scored the same
        return Look(count, found, float(found.value == margin), found.value, found.value)
    error = float(np.sqrt(variance))
    half = error * float(stats.t.isf(design.level(count) / 2, count - 1))
    p = float(2 * stats.t.sf(abs(found.value - margin) / error, count - 1))
    return Look(count, found, p, found.value - half, found.value + half)


def looks_at(
    table: Played,
    design: Design,
    *,
    method: str,
    baseline: str,
    variants: Sequence[str],
    margin: float,
) -> list[Look]:
    """Every look that the games allow: the first seeds of the design that both methods played."""
    have = [
        set(table.scores.loc[[name]].droplevel("method")[list(variants)].dropna().index)
        for name in (method, baseline)
    ]
    there = 0
    while there < design.most and all(design.seeds[there] in seeds for seeds in have):
        there += 1
    found = []
    for count in range(design.first, there + 1):
        part = table.of_seeds(design.seeds[:count])
        x, y = (part.sample(name, variants) for name in (method, baseline))
        found.append(look(difference(x, y), margin, design))
    return found


def repeated_p(looks: Sequence[Look], design: Design) -> float:
    """A p that holds however often was looked: below LEVEL once a look was below its own level."""
    known = [LEVEL * one.p / design.level(one.seeds) for one in looks if np.isfinite(one.p)]
    return min(1.0, *known) if known else float("nan")


@dataclass(frozen=True)
class Record:
    """What a sweep has written of its looks."""

    design: Design
    claims: str  # the hash of the claims file
    said: dict[int, list[str]]  # by the number of seeds

    def write(self, folder: Path) -> None:
        """Write it into the sweep's folder."""
        values = {
            "version": VERSION,
            "claims": self.claims,
            "seeds": list(self.design.seeds),
            "first": self.design.first,
            "looks": [{"seeds": n, "said": lines} for n, lines in sorted(self.said.items())],
        }
        write_atomically(folder / FILE, json.dumps(values, indent=1) + "\n")


def read(folder: Path) -> Record | None:
    """The record in a sweep's folder; None without one, a UserError where it cannot be used."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        values: Any = json.loads(guard.read_text(path))
        version = values["version"]
        seeds = tuple(_whole(seed) for seed in values["seeds"])
        first = _whole(values["first"])
        said = {_whole(one["seeds"]): [str(s) for s in one["said"]] for one in values["looks"]}
        claims = str(values["claims"])
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}).") from None
    if version != VERSION:
        raise UserError(f"{path} is of version {version}, this reprl reads version {VERSION}.")
    if len(set(seeds)) != len(seeds) or not 2 <= first <= len(seeds) <= MOST:
        raise UserError(f"{path} is damaged: its seeds are no design.")
    return Record(Design(seeds, first), claims, said)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value
