"""The declared comparison of docs/results.md, recomputed from results/imitation.

runs and games of `sweep=imitation` -> the tables and the figure that `benchmarks.results_page` puts
on the page.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reprl.analysis.claims import Judged, find_claims, judge
from reprl.analysis.gap import Played, played
from reprl.analysis.load import Results, collect
from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.stats import Estimate, mean_estimate
from reprl.naming import is_baseline
from reprl.schema import CLEAN

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "results" / "imitation"
# folders beside it, about whose runs nothing was claimed: where these differ in a setting that
# names do not tell, their games get a name of the page's own
EXPLORED: dict[str, str | None] = {
    "imitation_boxes": "imitation-nature-boxes_lines",
    "imitation_newest": "imitation-nature-top_k-newest-boxes_lines",
    "imitation_robust": None,
    "imitation_object": None,
    "imitation_objects": "imitation-nature_objects",
    "imitation_joined": "imitation-nature-motion-top_k",
    "imitation_parts": None,
}
PICTURE = ROOT / "docs" / "images" / "declared.png"
PUBLISHED = ["constant_rectangle", "moving_square", "green_lines", "diagonals"]
FRAMES, SLOW, ADAPTIVE, CHANGE, UNTAUGHT, TAUGHT, MOTION, DRAC, CONTRASTIVE = (
    "imitation-nature",
    "imitation-nature_background",
    "imitation-nature_adaptive",
    "imitation-nature_differences",
    "imitation-nature-conv_21",
    "imitation-nature-top_k-motion_target-boxes_lines",
    "imitation-nature-motion",
    "imitation-nature-drac-gray_boxes",
    "imitation-nature-contrastive",
)
DRAWN, NEWEST, OBJECTS, JOINED = (name for name in EXPLORED.values() if name)
ROBUST, BY_TRUTH = (
    "imitation-nature_adaptive-boxes_speckle",
    "imitation-nature-top_k-object_target-boxes_lines",
)
# masks and the contrastive loss, crossed on frames and on differences: for parts_page's tables
WITH_CONTRASTIVE = {
    FRAMES: CONTRASTIVE,
    UNTAUGHT: f"{UNTAUGHT}-contrastive",
    MOTION: f"{MOTION}-contrastive",
    TAUGHT: "imitation-nature-top_k-contrastive+motion_target-boxes_lines",
}
ON_CHANGE = {
    method: method.replace(FRAMES, CHANGE, 1)
    for pair in WITH_CONTRASTIVE.items()
    for method in pair
}
CROSSED = {*WITH_CONTRASTIVE.values(), *ON_CHANGE.values()} - {CONTRASTIVE, CHANGE}
METHODS = {  # what their agents see
    FRAMES: "frames",
    SLOW: "slow memory",
    ADAPTIVE: "adaptive memory",
    CHANGE: "differences",
    UNTAUGHT: "frames under an untaught mask",
    TAUGHT: "frames under a taught mask",
    NEWEST: "frames under a mask taught where things are",
    DRAWN: "frames with boxes and lines",
    MOTION: "frames under motion's mask",
    JOINED: "frames under motion's mask, hard",
    DRAC: "frames with DrAC on boxes",
    CONTRASTIVE: "frames with a contrastive loss",
    ROBUST: "adaptive memory with boxes and speckle",
    BY_TRUTH: "frames under a mask taught by the truth",
    OBJECTS: "the true objects alone",
}
MASKED = (UNTAUGHT, TAUGHT)
DECLARED = (FRAMES, SLOW, ADAPTIVE, CHANGE, *MASKED)  # what the claims are about
FIRST_SEEDS = (11, 12, 13)  # 14 and 15 came after their verdicts had been seen (docs/protocol.md)
OTHER = ["noise", "background_gray", "strobing_bricks", "player_blue"]
COLOURS = ["player_red", "player_green", "player_white"]
LOOKED = [CLEAN, "green_lines", "diagonals"]
KEPT, LOWEST = 0.8, 0.65  # of the clean score: what counts as success, and its interval's lower end


@lru_cache(maxsize=1)
def results() -> Results:
    return collect([PLACE])


@lru_cache(maxsize=1)
def table() -> Played:
    """Every game, and random play once on each variant."""
    return played(random_once([results().episodes, *map(explored, EXPLORED)]))


def random_once(found: list[pd.DataFrame]) -> pd.DataFrame:
    """Games of several folders in one table, and those of random play once on each variant."""
    games = pd.concat(found, ignore_index=True)
    baseline = games["method"].map(is_baseline)
    random = games[baseline].drop_duplicates(["method", "variant", "train_seed", "episode"])
    return pd.concat([games[~baseline], random], ignore_index=True)


def explored(folder: str) -> pd.DataFrame:
    """The games of runs beside the declared ones, under the name that the page has for them."""
    if not (ROOT / "results" / folder).is_dir():
        return pd.DataFrame()
    games = collect([ROOT / "results" / folder]).episodes
    if name := EXPLORED[folder]:
        games["method"] = games["method"].where(games["method"].map(is_baseline), name)
    return games


def shown() -> dict[str, str]:
    """The methods that have been run, in the page's order."""
    played_ = set(table().methods())
    strange = played_ - set(METHODS) - CROSSED - {m for m in played_ if is_baseline(m)}
    assert not strange, f"no table of the page has a name for {sorted(strange)}"
    return {method: name for method, name in METHODS.items() if method in played_}


def seeds() -> str:
    """Mean of every seed's games on every variant."""
    variants = [CLEAN, *PUBLISHED]
    lines = ["| the agent sees | " + " | ".join(variants) + " |", "|---" * 6 + "|"]
    for method, name in shown().items():
        part = table().scores.loc[method]
        cells = [" / ".join(f"{x:.0f}" for x in part[v]) for v in variants]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kept(method: str, variant: str, of: Played | None = None) -> Estimate:
    """The share of what was learned that is kept on a variant."""
    return (of or table()).retention(method, {variant: 1.0})


def kept_span(method: str) -> str:
    """From which to which share a method keeps on the published variants."""
    return _span([kept(method, v) for v in PUBLISHED])


def retention() -> str:
    """Clean score and the share kept on each published variant, with intervals over runs."""
    lines = ["| the agent sees | clean game | " + " | ".join(PUBLISHED) + " |", "|---" * 6 + "|"]
    for method, name in shown().items():
        clean = mean_estimate(table().sample(method, [CLEAN])).cut(table().lowest)
        cells = [_points(clean)] + [percent(kept(method, v)) for v in PUBLISHED]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def claims() -> str:
    """The declared comparisons and their verdicts, with what the first three seeds said alone."""
    head = "| declared | on the mean of | seeds | difference | p (Holm) | verdict | "
    lines = [head + f"seeds {FIRST_SEEDS[0]} to {FIRST_SEEDS[-1]} alone |", "|---" * 7 + "|"]
    before = {one.words: f"{_small(p)}, {verdict}" for one, p, verdict in _verdicts(first_seeds())}
    for one, p, verdict in _verdicts(results()):
        found = one.found
        where = "the four" if one.variants == PUBLISHED else ", ".join(one.variants)
        size = f"{found.value:+.1f} [{found.low:.1f}, {found.high:.1f}]"
        count = f"{found.n_first}, {found.n_second}"
        words = f"{METHODS[one.method]} above {METHODS[one.baseline]}"
        alone = before[one.words] if max(found.n_first, found.n_second) > len(FIRST_SEEDS) else ""
        cells = (words, where, count, size, _small(p), verdict, alone)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _verdicts(of: Results) -> list[tuple[Judged, float, str]]:
    return judge(of, find_claims([PLACE], of.warnings))


def first_seeds() -> Results:
    """The results without the seeds that were added after the first verdicts had been seen."""
    everything, played_ = results(), results().episodes
    own = played_["train_seed"].isin(FIRST_SEEDS) | played_["method"].map(is_baseline)
    runs = [run for run in everything.runs if run.seed in FIRST_SEEDS]
    return replace(everything, runs=runs, episodes=played_[own], warnings=[])


def elsewhere() -> str:
    """Mean points on the other variants, of the methods whose runs all played them."""
    scores = table().scores.drop(columns=PUBLISHED)
    means = {
        name: scores.loc[method].mean()
        for method, name in shown().items()
        if scores.loc[method].drop(columns=CLEAN).notna().any(axis=None)
    }
    rows = pd.DataFrame(means).dropna(how="all").T
    lines = ["| the agent sees | " + " | ".join(rows) + " |"]
    lines.append("|---" * (1 + len(rows.columns)) + "|")
    for name, row in rows.iterrows():
        cells = ["" if np.isnan(x) else f"{x:.1f}" for x in row]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def found() -> str:
    """What the comparison says, in sentences whose numbers are computed."""
    return "\n\n".join((_holds(), _fails(), _masks(), _losses(), _combined(), _unknown()))


def _holds() -> str:
    moved = [kept(CHANGE, v) for v in PUBLISHED]
    clean, whole = _against(SLOW, FRAMES, [CLEAN]), _clean()
    assert clean.value > 0
    size = _size(clean).removeprefix("+")
    lows = [round(100 * share.low) for share in moved]
    return (
        "**What holds.** Agents that see the difference to a slow memory of the picture keep "
        f"{kept_span(SLOW)} of what they learned on the four drawings, agents on frames "
        f"{kept_span(FRAMES)}; on the clean game the slow memory makes {size} points more. "
        f"Differences of the stack keep {kept_span(CHANGE)} of {whole[CHANGE]:.0f} points (frames "
        f"make {whole[FRAMES]:.0f}); the lower ends of these intervals are {min(lows)} to "
        f"{max(lows)} %. Neither needed an augmentation or an auxiliary loss."
    )


def _fails() -> str:
    points = {m: {v: table().sample(m, [v]).value for v in OTHER} for m in (SLOW, ADAPTIVE, CHANGE)}
    hard, words = ["noise", "background_gray", "player_blue"], "noise, a gray background and a blue"
    slow, adaptive = ([f"{points[m][v]:.1f}" for v in hard] for m in (SLOW, ADAPTIVE))
    bricks = [f"{points[m]['strobing_bricks']:.1f}" for m in (SLOW, ADAPTIVE)]
    worst = min(PUBLISHED, key=lambda v: kept(ADAPTIVE, v).value)
    none = points[CHANGE].values()
    assert max(*none, *map(float, slow)) < 20  # else they do not fail
    return (
        f"**What does not.** On {words} player the slow memory fails: {listed(slow)} points, where "
        f"the adaptive memory makes {listed(adaptive)}. On strobing bricks the slow memory makes "
        f"{bricks[0]}, the adaptive one {bricks[1]}. Of the four drawings the adaptive one loses "
        f"most to `{worst}` ({100 * kept(ADAPTIVE, worst).value:.0f} % kept). Differences make "
        f"{min(none):.1f} to {max(none):.1f} points on these other four. {_declared_success()}"
    )


def _masks() -> str:
    taught, untaught, drawn = map(kept_span, (TAUGHT, UNTAUGHT, DRAWN))
    boxes, lines = PUBLISHED[:2], PUBLISHED[2:]
    whole, added = _clean(), _against(TAUGHT, DRAWN, PUBLISHED)
    soft, hard = (
        f"{_span([kept(m, v) for v in boxes])} behind boxes and "
        f"{_span([kept(m, v) for v in lines])} behind lines, of {whole[m]:.0f}"
        for m in (MOTION, JOINED)
    )
    return (
        "**Masks.** On frames under a hard mask that is taught by what moves agents keep "
        f"{taught} of {whole[TAUGHT]:.0f} points, under a soft one that nobody teaches "
        f"{untaught} of {whole[UNTAUGHT]:.0f}. The taught one also trains on pictures with "
        f"boxes and lines. Agents that do so without a mask keep {drawn} of "
        f"{whole[DRAWN]:.0f}; the mask adds {_size(added)} points on the mean of the four: "
        f"{_what_protects(added)}. Under a mask that sees motion alone they keep {soft}; made "
        f"hard, with nothing else let through, {hard}. {_where_masks_look()}"
    )


def _losses() -> str:
    boxes, lines = ([kept(DRAC, v) for v in some] for some in (PUBLISHED[:2], PUBLISHED[2:]))
    runs = _count(len(table().scores.loc[[CONTRASTIVE]])).lower()
    return (
        "**Losses, augmentations.** Agents on frames that DrAC keeps the same on gray boxes "
        f"keep {_span(boxes)} behind boxes and {_span(lines)} behind lines, which they were not "
        f"shown. With a contrastive loss they keep {kept_span(CONTRASTIVE)} ({runs} runs): on the "
        f"mean of the four {_size(_against(CONTRASTIVE, FRAMES, PUBLISHED))} points against frames "
        "alone."
    )


def _unknown() -> str:
    counts = table().scores.groupby(level="method").size()[list(shown())]
    return (
        f"**What is unknown.** {_count(min(counts))} to {_count(max(counts)).lower()} runs a "
        "method, by imitation, not reinforcement learning: the intervals are wide and rough. Seeds "
        f"after {FIRST_SEEDS[-1]} were added after the first verdicts. The constants of the "
        "adaptive memory were set on pictures of twenty variants, the four among them, and the "
        "speckle was made to look like noise and faint colours: no score was used, but these "
        "pictures were not unseen. No agent that PPO alone made this competent has been compared."
    )


def _clean() -> dict[str, float]:
    """Mean points of every method on the clean game."""
    return {m: table().sample(m, [CLEAN]).value for m in shown()}


def listed(words: list[str]) -> str:
    """Words as a sentence has them: a, b and c."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _what_protects(added: Difference) -> str:
    """What the mask and the pictures of training each do, as far as the intervals tell."""
    drawn = _against(DRAWN, FRAMES, PUBLISHED)
    pictures = (
        "what was drawn in training protects"
        if drawn.low > 0
        else ("whether what was drawn in training protects is not decided")
    )
    if added.low > 0:
        return f"{pictures}, and the mask adds to it"
    if added.high < 0:
        return f"{pictures}, and the mask takes from it"
    return f"{pictures}, and whether the mask adds to it these runs do not decide"


def _combined() -> str:
    """What the adaptive background with boxes and speckle in training keeps, and what it costs."""
    far = {v: kept(ROBUST, v) for v in (*OTHER, *COLOURS)}
    worst = min(far, key=lambda v: far[v].value)
    enough = [v for v in far if far[v].value >= 0.6]
    said = (
        "**The best combination.** The adaptive memory, trained on pictures with boxes and speckle "
        f"(not declared, {_count(len(table().scores.loc[[ROBUST]])).lower()} seeds), keeps "
        f"{kept_span(ROBUST)} on the four drawings and "
        f"{_span(list(far.values()))} on noise, a gray background, strobing bricks and blue, red, "
        f"green and white players, the least on `{worst}`. 60 % on each was our own aim, not a "
        f"declared one: it is reached on {len(enough)} of these {len(far)}. "
    )
    clean = _against(ROBUST, FRAMES, [CLEAN])
    return said + (
        f"It costs most of the clean game: {table().sample(ROBUST, [CLEAN]).value:.0f} points "
        f"({_size(clean)} against frames); with five times the steps it makes a competent agent, "
        "one seed, [which ships](#agents-that-ship)."
        if clean.high < 0
        else f"On the clean game it differs from frames by {_size(clean)} points."
    )


@lru_cache(maxsize=1)
def looked() -> pd.DataFrame:
    """Where the masks of every run look: the rows of attention/scores.csv."""
    found = [pd.read_csv(file) for file in sorted(PLACE.glob("*/attention/scores.csv"))]
    for folder, method in EXPLORED.items():
        files = sorted((ROOT / "results" / folder).glob("*/attention/scores.csv"))
        for rows in map(pd.read_csv, files):
            found.append(rows.assign(method=method) if method else rows)
    return pd.concat(found, ignore_index=True).sort_values("train_seed", kind="stable")


def _look(method: str, metric: str, variant: str, thing: str = "ball or paddle") -> pd.DataFrame:
    rows = looked()
    asked = {"method": method, "metric": metric, "variant": variant, "object": thing}
    return rows[np.logical_and.reduce([rows[key] == value for key, value in asked.items()])]


def masks() -> str:
    """Pointing and energy of the masks of every seed, on ball and paddle and on each alone."""
    heads = ["variant", "peak on ball or paddle", "on the ball", "on the paddle"]
    heads += ["by its average map alone", "energy on ball or paddle"]
    lines = ["| the agent sees | " + " | ".join(heads) + " |", "|---" * 7 + "|"]
    seen = set(looked()["method"])
    for method, name in shown().items():
        for variant in LOOKED if method in seen else ():
            cells = [
                _shares(_look(method, "pointing", variant, thing)["value"])
                for thing in ("ball or paddle", "ball", "paddle")
            ]
            cells.append(_shares(_look(method, "pointing", variant)["static"]))
            part = _look(method, "energy", variant)
            cells.append(" / ".join(f"{x:.1f}" for x in part["value"] / part["chance"]))
            lines.append(f"| {name} | {variant} | " + " | ".join(cells) + " |")
    for name, column in (("*a uniform mask*", "chance"), ("*the best 21x21 mask*", "ceiling")):
        cells = []
        for thing in ("ball or paddle", "ball", "paddle"):
            peak = 100 * _look(TAUGHT, "pointing", CLEAN, thing)[column].mean()
            cells.append(f"{peak:.0f} %" if peak >= 10 else f"{peak:.1f} %")
        energy = _look(TAUGHT, "energy", CLEAN)
        cells += ["", f"{(energy[column] / energy['chance']).mean():.1f}"]
        lines.append(f"| {name} | {CLEAN} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shares(values: pd.Series) -> str:
    return " / ".join(f"{100 * x:.0f}" for x in values) + " %"


def _where_masks_look() -> str:
    """The share of looks on ball or paddle, in a small table, and what was declared of it."""
    masks_ = {
        UNTAUGHT: "that nobody teaches (declared)",
        TAUGHT: "taught by what moves (declared)",
        NEWEST: "taught where things are now (`auxiliary.newest=true`)",
    }
    where = " | ".join(LOOKED)
    chance = 100 * _look(TAUGHT, "pointing", CLEAN)["chance"].mean()
    lines = [f"| mask over frames | {where} | energy there: {where} |", "|---" * 7 + "|"]
    for method, words in masks_.items():
        cells = [f"{100 * _peak(method, v):.0f} %" for v in LOOKED]
        cells += [f"{_energy(method, v):.1f}" for v in LOOKED]
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    lowest = min(
        (row["value"], v) for v in LOOKED for _, row in _look(NEWEST, "pointing", v).iterrows()
    )
    held, missed = "above these marks in the mean of its seeds", "below these marks"
    return (
        "Share of looks with the mask's largest cell on ball or paddle (a uniform mask: "
        f"{chance:.1f} %), and the mask's energy there as a multiple of a uniform mask's, means of "
        "three seeds:\n\n" + "\n".join(lines) + "\n\n"
        "Declared for a mask were 80 % of looks at the clean game and 60 % behind lines, with five "
        f"times a uniform mask's energy: **{'reached' if _found(TAUGHT) else 'missed'}** by the "
        "declared mask. One taught where things are now and, fainter, where they were a stack or "
        "two ago, instead of along their whole trail, was not declared and is "
        f"{held if _found(NEWEST) else missed}; its lowest seed has {100 * lowest[0]:.0f} % on "
        f"`{lowest[1]}`. It lights the lines too: "
        f"{_energy(NEWEST, 'green_lines', 'distractor'):.1f} times a uniform mask's energy is on "
        f"green lines, {_energy(NEWEST, 'diagonals', 'distractor'):.1f} on diagonals."
    )


def _peak(method: str, variant: str) -> float:
    """How often the largest cell is on ball or paddle, mean of the seeds."""
    return float(_look(method, "pointing", variant)["value"].mean())


def _energy(method: str, variant: str, thing: str = "ball or paddle") -> float:
    """The mask's energy on a thing as a multiple of a uniform mask's, mean of the seeds."""
    part = _look(method, "energy", variant, thing)
    return float((part["value"] / part["chance"]).mean())


def _found(method: str) -> bool:
    """Whether a mask does what was declared to be success."""
    asked = {CLEAN: 0.8} | dict.fromkeys(LOOKED[1:], 0.6)
    return all(_peak(method, v) >= asked[v] for v in LOOKED) and all(
        _energy(method, v) >= 5 for v in LOOKED
    )


def _count(number: int) -> str:
    return {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five"}[int(number)]


def _declared_success() -> str:
    """What was declared to be success, and which methods reached it."""
    with_all, kept_on = _reached(table()), success(table())
    rule = f"at least {100 * KEPT:.0f} % kept on each of the four with a lower end above "
    rule += f"{100 * LOWEST:.0f} %, and no lower mean on the clean game than frames"
    first = _reached(played(first_seeds().episodes))
    said = f"Declared success, {rule}, is reached by {_named(with_all)} with all seeds"
    if first != with_all:
        said += f", by {_named(first)} with seeds {FIRST_SEEDS[0]} to {FIRST_SEEDS[-1]} alone"
    also: dict[int, list[str]] = {}  # number of variants -> methods
    for method in DECLARED:
        name = METHODS[method]
        if kept_on[name] and name not in with_all:
            also.setdefault(len(kept_on[name]), []).append(name)
    partly = "; ".join(
        f"{listed(names)} on {_count(count).lower()}" for count, names in also.items()
    )
    head = ". Of the other declared methods as much, lower end included, is kept by "
    return said + (f"{head}{partly} of the four." if partly else ".")


def _reached(of: Played) -> list[str]:
    """The declared methods that reached what was declared to be success."""
    clean = of.sample(FRAMES, [CLEAN]).value
    return [
        METHODS[m]
        for m in DECLARED
        if m in of.scores.index
        and success(of)[METHODS[m]] == PUBLISHED
        and of.sample(m, [CLEAN]).value >= clean
    ]


def _named(methods: list[str]) -> str:
    return ", ".join(methods) or "no method"


def _against(method: str, other: str, variants: list[str]) -> Difference:
    return difference(table().sample(method, variants), table().sample(other, variants))


def _size(found: Difference) -> str:
    return f"{found.value:+.0f} [{found.low:.0f}, {found.high:.0f}]"


def _span(shares: list[Estimate]) -> str:
    values = [round(100 * share.value) for share in shares]
    return f"{min(values)} to {max(values)} %"


def success(of: Played) -> dict[str, list[str]]:
    """The published variants on which each method keeps as much as was declared to be success."""
    return {
        name: [v for v in PUBLISHED if (e := kept(m, v, of)).value >= KEPT and e.low > LOWEST]
        for m, name in shown().items()
        if m in of.scores.index and m != OBJECTS  # whose picture no drawing reaches
    }


def figure() -> Figure:
    """Points of every seed, and their mean, on the clean game and each published variant."""
    variants = [CLEAN, *PUBLISHED]
    picture = Figure(figsize=(9.6, 3.8), layout="constrained")
    axes = picture.subplots()
    for k, method in enumerate(DECLARED):
        part = table().scores.loc[method]
        x = np.arange(len(variants)) + 0.7 * ((k + 0.5) / len(DECLARED) - 0.5)
        width = 0.62 / len(DECLARED)
        drawn = {"hatch": "///", "edgecolor": "white", "lw": 0} if method == TAUGHT else {}
        label = METHODS[method] + (", trained with boxes and lines" if drawn else "")
        bars = axes.bar(x, part[variants].mean(), width, alpha=0.45, label=label, **drawn)
        colour = bars.patches[0].get_facecolor()[:3]
        aside = 0.5 * width * ((np.arange(len(part)) + 0.5) / len(part) - 0.5)
        for (_, row), shift in zip(part.iterrows(), aside, strict=True):
            axes.plot(x + shift, row[variants], "o", markersize=3.5, color=colour)
    axes.set_xticks(range(len(variants)), variants)
    axes.set_ylabel("points a game")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return picture


def _small(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "below 0.001"


def _points(found: Estimate) -> str:
    return f"{found.value:.0f} [{found.low:.0f}, {found.high:.0f}]"


def percent(found: Estimate) -> str:
    """A share with its interval."""
    value, low, high = (round(100 * x) for x in (found.value, found.low, found.high))
    return f"{value} % [{low}, {high}]"


TABLES = {
    "declared found": found,
    "declared seeds": seeds,
    "declared kept": retention,
    "declared claims": claims,
    "declared elsewhere": elsewhere,
    "declared masks": masks,
}
