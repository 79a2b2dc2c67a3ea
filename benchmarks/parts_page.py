"""Which part does the work? One change at a time, for docs/results.md.

games of the declared comparison and of PPO's runs -> what each input, mask, loss and augmentation
keeps, and what it adds, in the table that `benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from benchmarks import declared_page
from benchmarks.beginnings_page import NOT_RUN
from reprl.analysis.gap import Played, played
from reprl.analysis.load import collect
from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.stats import Component, Estimate, interval
from reprl.schema import CLEAN

ROOT = Path(__file__).parent.parent
PUBLISHED = declared_page.PUBLISHED
BY_PPO = ("methods", "ppo_background", "ppo_differences", "ppo_parts")  # PPO at 200,000 steps
COLUMNS = (
    "by imitation, frames",
    "by imitation, differences",
    "by PPO, frames",
    "by PPO, differences",
)
NOTHING, CONTRASTIVE = "nothing", "a contrastive loss"
_d = declared_page
MASKS = {  # what each is called on the page -> by imitation on frames, by PPO but for the input
    "a mask that nobody teaches": (_d.UNTAUGHT, "conv_21"),
    "a mask of motion alone": (_d.MOTION, "motion"),
    "a mask that is taught by motion (by imitation on pictures with boxes and lines)": (
        _d.TAUGHT,
        "top_k-motion_target",
    ),
}
Methods = tuple[str | None, ...]


def _with_a_mask(words: str) -> dict[str, Methods]:
    """A mask, and the same mask with a contrastive loss."""
    taught, by_ppo_ = MASKS[words]
    both = _d.WITH_CONTRASTIVE[taught]
    learned = (f"ppo-nature-{by_ppo_}", f"ppo-nature_differences-{by_ppo_}")
    return {
        words: (taught, _d.ON_CHANGE[taught], *learned),
        f"{words}, and {CONTRASTIVE}": (both, _d.ON_CHANGE[both], None, None),
    }


UNTAUGHT, MOTION, TAUGHT = MASKS
PARTS: dict[str, Methods] = {  # what is added -> the methods, in the columns' order
    NOTHING: (_d.FRAMES, _d.CHANGE, "ppo-nature", "ppo-nature_differences"),
    CONTRASTIVE: (
        _d.CONTRASTIVE,
        _d.ON_CHANGE[_d.CONTRASTIVE],
        "ppo-nature-contrastive",
        "ppo-nature_differences-contrastive",
    ),
    **_with_a_mask(UNTAUGHT),
    **_with_a_mask(MOTION),
    "a mask of motion alone, hard and shut": (_d.JOINED, None, None, None),
    **_with_a_mask(TAUGHT),
    "boxes in the pictures of training (by imitation and lines)": (
        _d.DRAWN,
        None,
        "ppo-nature-gray_boxes",
        None,
    ),
    "kept the same on boxes (DrAC)": (_d.DRAC, None, "ppo-nature-drac-gray_boxes", None),
    "a contrastive loss, boxes in its views": (
        None,
        None,
        "ppo-nature-contrastive-gray_boxes",
        None,
    ),
    "a slow memory of the picture, in place of frames": (
        _d.SLOW,
        None,
        "ppo-nature_background",
        None,
    ),
}


@lru_cache(maxsize=4)
def by_ppo(folder: str) -> Played | None:
    """PPO's games of a folder; each by itself, since the first sweep's runs shared their games."""
    place = ROOT / "results" / folder
    return played(collect([place]).episodes) if place.is_dir() else None


def parts() -> str:
    """What each part keeps on the mean of the four, of which clean score."""
    lines = ["| what is added | " + " | ".join(COLUMNS) + " |", "|---" * 5 + "|"]
    for words, methods in PARTS.items():
        cells = [_cell(i, method) for i, method in enumerate(methods)]
        if not any(cells):
            continue  # announced, and not run yet
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts() -> str:
    """Which parts differ from the same agents without them, by intervals that exclude 0."""
    said = []
    for i, column in enumerate(COLUMNS):
        better, worse, open_ = [], [], []
        for words, methods in list(PARTS.items())[1:]:
            if not _has(i, methods[i]):
                continue
            found = added(i, str(methods[i]))
            (better if found.low > 0 else worse if found.high < 0 else open_).append(words)
        kinds = (
            ("more points on the four with", better),
            ("Fewer with", worse),
            ("Undecided:", open_),
        )
        told = [f"{head} {'; '.join(names)}." for head, names in kinds if names]
        if told:
            said.append(f"- **{column}**: {' '.join(told)}")
    return "\n".join(said)


def crossed() -> str:
    """What differences, masks and the contrastive loss add, each on average over the others."""
    lines = ["| what is added | " + " | ".join(COLUMNS[:2]) + " |", "|---" * 3 + "|"]
    bare = [NOTHING, *MASKS]
    pairs = {CONTRASTIVE: [(one, _and_contrastive(one)) for one in bare]}
    pairs |= {one: [(NOTHING, one), (CONTRASTIVE, _and_contrastive(one))] for one in MASKS}
    for words, steps in pairs.items():
        cells = [_effect([(i, PARTS[a][i], i, PARTS[b][i]) for a, b in steps]) for i in (0, 1)]
        if any(cells):
            lines.append(f"| {words} | " + " | ".join(cells) + " |")
    every = [*bare, *map(_and_contrastive, bare)]
    whole = _effect([(0, PARTS[one][0], 1, PARTS[one][1]) for one in every])
    if whole:
        lines.append(f"| differences, in place of frames | {whole} | |")
    return "\n".join(lines) if len(lines) > 2 else NOT_RUN


def _and_contrastive(words: str) -> str:
    return CONTRASTIVE if words == NOTHING else f"{words}, and {CONTRASTIVE}"


def _effect(steps: list[tuple[int, str | None, int, str | None]]) -> str:
    """The mean of several differences, each of a method less the one before it."""
    if not all(_has(i, a) and _has(j, b) for i, a, j, b in steps):
        return ""
    found = mean_difference([between(j, str(b), i, str(a)) for i, a, j, b in steps])
    return f"{found.value:+.0f} [{found.low:.0f}, {found.high:.0f}]"


def mean_difference(found: list[Difference]) -> Difference:
    """The mean of independent differences, with the interval of their variances together."""
    n = len(found)
    value = sum(one.value for one in found) / n
    components = [Component(c.value / n**2, c.freedom) for one in found for c in one.parts]
    first, second = (sum(getattr(one, key) for one in found) for key in ("n_first", "n_second"))
    return Difference(value, *interval(value, components), first, second, tuple(components))


def added(column: int, method: str) -> Difference:
    """Points on the mean of the four, less those of the same agents without the part."""
    plain = PARTS[NOTHING][column]
    assert plain is not None
    return between(column, method, column, plain)


def between(column: int, method: str, other_column: int, other: str) -> Difference:
    """The difference of two methods' points on the mean of the four."""
    first = _played(column, method).sample(method, PUBLISHED)
    return difference(first, _played(other_column, other).sample(other, PUBLISHED))


def kept(of: Played, method: str) -> Estimate:
    """The share of what was learned that is kept on the mean of the four."""
    return of.retention(method, dict.fromkeys(PUBLISHED, 1 / len(PUBLISHED)))


def _cell(column: int, method: str | None) -> str:
    if method is None or not _has(column, method):
        return ""
    of = _played(column, method)
    clean = of.sample(method, [CLEAN]).value
    runs = len(of.scores.loc[[method]])
    return f"{_d.percent(kept(of, method))} of {clean:.0f}, {runs} runs"


def _has(column: int, method: str | None) -> bool:
    return method is not None and any(method in of.scores.index for of in _tables(column))


def _played(column: int, method: str) -> Played:
    return next(of for of in _tables(column) if method in of.scores.index)


def _tables(column: int) -> list[Played]:
    if column < 2:
        return [_d.table()]
    return [of for folder in BY_PPO if (of := by_ppo(folder)) is not None]


TABLES = {"parts": parts, "part verdicts": verdicts, "crossed": crossed}
