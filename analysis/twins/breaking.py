"""The smallest drawing that breaks an agent: searched by twin divergence, confirmed by full games.

rectangles of growing area -> **place and gray that move the policy most, on the same states** ->
games with other seeds, clean and with the drawing -> `evaluation/breaking.csv`. The drawing lies
under the objects (only where the background shows), so it hides neither ball nor paddle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reprl import tables
from reprl.analysis.probe.subject import Subject, subject
from reprl.envs.defaults import CLEAN
from reprl.envs.variation.base import Part, Variant
from reprl.envs.variation.drawing import GRID
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.evaluate import evaluate
from reprl.evaluation.players import ModelAgent
from reprl.evaluation.twin import jensen_shannon
from reprl.evaluation.variants import label
from reprl.rng import numpy_stream
from reprl.schema import BREAKING as COLUMNS
from reprl.schema import FILES
from reprl.settings import BREAKING
from reprl.validation import checker

TARGET = "reprl.envs.variation.shapes:Rectangles"
AT_ONCE = 12  # drawings that are looked at side by side, on the same states
# Height and width in cells (2x2 raw pixels each), by area: thin ones and stout ones.
SIZES = (
    *((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (3, 3), (4, 4), (1, 16)),
    *((16, 1), (2, 12), (6, 6), (8, 8), (2, 40), (10, 10), (12, 16), (20, 20), (30, 40)),
)


@dataclass(frozen=True)
class Drawn:
    """One rectangle in cells of the 80x80 grid, and its gray level."""

    height: int
    width: int
    row: int
    column: int
    gray: int

    @property
    def variant(self) -> Variant:
        """It as a variant; its name says how to draw it again."""
        parameters = {"height": self.height, "width": self.width, "at": [[self.row, self.column]]}
        part = Part(TARGET, {**parameters, "colour": [self.gray] * 3, "under": True})
        name = f"rectangle_{self.height}x{self.width}_at_{self.row}_{self.column}_gray_{self.gray}"
        return Variant(name, "drawing", effects=(part,))

    def moved(self, draw: np.random.Generator, reach: float) -> Drawn:
        """A neighbour; `reach` 1 is anywhere, 0 here."""

        def near(now: int, low: int, high: int) -> int:
            step = draw.normal(0, max(1.0, reach * (high - low) / 2))
            return int(np.clip(round(now + step), low, high))

        row, column = near(self.row, 0, GRID - self.height), near(self.column, 0, GRID - self.width)
        return Drawn(self.height, self.width, row, column, near(self.gray, 1, 255))


Measure = Callable[[Sequence[Drawn]], list[tuple[float, float]]]  # js and flips of each


def breaking(
    agent: Any,
    *,
    frames: int = 32,
    tries: int = 48,
    largest: int = 1200,
    kept: float = 0.5,
    divergence: float = 0.05,
    episodes: int = 5,
    seed: int = 0,
    labels: dict[str, Any] | None = None,
    report: Callable[[str], None] = lambda _: None,
    **settings: Any,
) -> pd.DataFrame:
    """One row for each size that was searched, smallest first; the last one breaks the agent.

    Of each size `tries` drawings are looked at on `frames` states. Where the best moves the policy
    by at least `divergence` nats, `episodes` games are played clean and with it, from seeds that
    the search did not see; the agent is broken (1) where it keeps at most `kept` of its score.
    """
    began = time.perf_counter()
    check = checker(BREAKING)
    frames, tries, seed = check("frames", frames), check("tries", tries), check("seed", seed)
    largest, episodes = check("largest", largest), check("episodes", episodes)
    kept, divergence = float(check("kept", kept)), float(check("divergence", divergence))
    who = subject(agent, labels, settings, "a search for the smallest breaking change")
    measure = divergence_on_states(who, frames=frames, seed=seed)
    clean: float | None = None
    rows: list[dict[str, Any]] = []
    for height, width in sorted(SIZES, key=lambda size: size[0] * size[1]):
        if height * width > largest:
            break
        best, js, flips = strongest(
            measure, height, width, tries=tries, seed=seed, start=rows[-1] if rows else None
        )
        row: dict[str, Any] = {"height": height, "width": width, "row": best.row}
        row |= {"column": best.column, "gray": best.gray, "variant": best.variant.name}
        row |= {"js": js, "flips": flips, "tried": tries, "episodes": 0, "broken": 0}
        if js >= divergence:
            clean = played(who, None, episodes, seed) if clean is None else clean
            score = played(who, best, episodes, seed)
            share = score / clean if clean > 0 else float("nan")
            row |= {"clean": clean, "score": score, "share": share, "episodes": episodes}
            row["broken"] = int(share <= kept)
        rows.append(row)
        report(sentence(row))
        if row["broken"]:
            break
    about = who.about | {"eval_seed": seed}
    table = pd.DataFrame([about | row for row in rows], columns=list(COLUMNS.columns))
    table.attrs["seconds"] = time.perf_counter() - began
    return table


def sentence(row: dict[str, Any]) -> str:
    """What was found of one size."""
    words = (
        f"{row['height']}x{row['width']} at row {row['row']:.0f}, column {row['column']:.0f}, "
        f"gray {row['gray']:.0f}: policy moved by {row['js']:.3f} nats"
    )
    if not row["episodes"]:
        return words
    return f"{words}; score {row['score']:.1f} of {row['clean']:.1f}" + (
        ": broken" if row["broken"] else ""
    )


def write(target: Measured, table: pd.DataFrame) -> Path:
    """Put the rows beside the evaluation; the same search made again is replaced."""
    path = target.place / FILES["breaking"]
    tables.merge(path, table, COLUMNS)
    return path


def strongest(
    measure: Measure,
    height: int,
    width: int,
    *,
    tries: int,
    seed: int,
    start: dict[str, Any] | None = None,
) -> tuple[Drawn, float, float]:
    """The drawing of one size that moves the policy most among `tries`, with js and flips.

    The first half is drawn anywhere (and where the size before was strongest), the second around
    the best so far, ever nearer.
    """
    draw = numpy_stream(seed, "breaking", height, width)
    anywhere = Drawn(height, width, (GRID - height) // 2, (GRID - width) // 2, 128)
    best, score = anywhere, (-1.0, 0.0)
    looked = 0
    while looked < tries:
        count = min(AT_ONCE, tries - looked)
        reach = 0.5 * (1 - looked / tries) ** 2
        if looked < tries / 2:
            some = [_anywhere(draw, height, width) for _ in range(count)]
            if start is not None and looked == 0:
                row, column = min(start["row"], GRID - height), min(start["column"], GRID - width)
                some[0] = Drawn(height, width, row, column, start["gray"])
        else:
            some = [best.moved(draw, reach) for _ in range(count)]
        for drawn, found in zip(some, measure(some), strict=True):
            if found[0] > score[0]:
                best, score = drawn, found
        looked += count
    return best, *score


def _anywhere(draw: np.random.Generator, height: int, width: int) -> Drawn:
    row = int(draw.integers(0, GRID - height + 1))
    column = int(draw.integers(0, GRID - width + 1))
    return Drawn(height, width, row, column, int(draw.integers(1, 256)))


def divergence_on_states(who: Subject, *, frames: int, seed: int) -> Measure:
    """Twin divergence of drawings on the same states of two games that the agent plays clean."""

    def measure(some: Sequence[Drawn]) -> list[tuple[float, float]]:
        distinct = list(dict.fromkeys(some))
        variants = [drawn.variant for drawn in distinct]
        moments = who.moments(
            variants, frames=frames, games=range(2), every=8, seed=seed, player="agent"
        )
        everything = np.arange(len(moments.games))
        clean = who.watcher.outputs(*moments.rows(CLEAN, everything))[0].probs
        found = {}
        for drawn in distinct:
            name = label(drawn.variant)
            varied = who.watcher.outputs(*moments.rows(name, everything))[0].probs
            js = np.mean([jensen_shannon(p, q) for p, q in zip(clean, varied, strict=True)])
            flips = (clean.argmax(axis=1) != varied.argmax(axis=1)).mean()
            found[drawn] = (float(js), float(flips))
        return [found[drawn] for drawn in some]

    return measure


def played(who: Subject, drawn: Drawn | None, episodes: int, seed: int) -> float:
    """The mean score of full games, clean or with a drawing, of seeds the search did not see."""
    samples = who.samples
    agent = ModelAgent(who.model, deterministic=not samples, labels=dict(who.about))
    variant: Any = CLEAN if drawn is None else drawn.variant
    table = evaluate(agent, variant, episodes, seed + 1, **who.settings)
    return float(table["episode_return"].mean())
