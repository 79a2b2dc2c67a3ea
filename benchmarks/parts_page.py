"""Which part does the work? One change at a time, for docs/results.md.

games of the declared comparison and of PPO's runs -> what each input, mask, loss and augmentation
keeps, and what it adds, in the table that `benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from benchmarks import declared_page
from reprl.analysis.gap import Played, played
from reprl.analysis.load import collect
from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.stats import Estimate

ROOT = Path(__file__).parent.parent
PUBLISHED = declared_page.PUBLISHED
BY_PPO = ("methods", "ppo_background", "ppo_differences", "ppo_parts")  # PPO at 200,000 steps
COLUMNS = (
    "by imitation, frames",
    "by imitation, differences",
    "by PPO, frames",
    "by PPO, differences",
)
_d = declared_page
PARTS = {  # what is added -> the methods, in the columns' order; None where it was not run
    "nothing": (_d.FRAMES, _d.CHANGE, "ppo-nature", "ppo-nature_differences"),
    "a mask that nobody teaches": (
        _d.UNTAUGHT,
        _d.ON_CHANGE[_d.UNTAUGHT],
        "ppo-nature-conv_21",
        None,
    ),
    "a mask of motion alone": (
        _d.MOTION,
        _d.ON_CHANGE[_d.MOTION],
        "ppo-nature-motion",
        None,
    ),
    "a mask of motion alone, hard and shut": (_d.JOINED, None, None, None),
    "a mask that is taught by motion (by imitation on pictures with boxes and lines)": (
        _d.TAUGHT,
        _d.ON_CHANGE[_d.TAUGHT],
        "ppo-nature-top_k-motion_target",
        "ppo-nature_differences-top_k-motion_target",
    ),
    "a contrastive loss": (
        _d.CONTRASTIVE,
        _d.ON_CHANGE[_d.CONTRASTIVE],
        "ppo-nature-contrastive",
        "ppo-nature_differences-contrastive",
    ),
    "a contrastive loss, boxes in its views": (
        None,
        None,
        "ppo-nature-contrastive-gray_boxes",
        None,
    ),
    "boxes in the pictures of training (by imitation and lines)": (
        _d.DRAWN,
        None,
        "ppo-nature-gray_boxes",
        None,
    ),
    "kept the same on boxes (DrAC)": (_d.DRAC, None, "ppo-nature-drac-gray_boxes", None),
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
    """What each part keeps on the mean of the four, and what it adds to the same without it."""
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


def added(column: int, method: str) -> Difference:
    """Points on the mean of the four, less those of the same agents without the part."""
    plain = PARTS["nothing"][column]
    assert plain is not None
    first, second = (_played(column, m).sample(m, PUBLISHED) for m in (method, plain))
    return difference(first, second)


def kept(of: Played, method: str) -> Estimate:
    """The share of what was learned that is kept on the mean of the four."""
    return of.retention(method, dict.fromkeys(PUBLISHED, 1 / len(PUBLISHED)))


def _cell(column: int, method: str | None) -> str:
    if method is None or not _has(column, method):
        return ""
    of = _played(column, method)
    return f"{_d.percent(kept(of, method))}, {len(of.scores.loc[[method]])} runs"


def _has(column: int, method: str | None) -> bool:
    return any(method in of.scores.index for of in _tables(column))


def _played(column: int, method: str) -> Played:
    return next(of for of in _tables(column) if method in of.scores.index)


def _tables(column: int) -> list[Played]:
    if column < 2:
        return [_d.table()]
    return [of for folder in BY_PPO if (of := by_ppo(folder)) is not None]


TABLES = {"parts": parts, "part verdicts": verdicts}
