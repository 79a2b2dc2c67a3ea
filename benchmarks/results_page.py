"""The numbers of docs/results.md, recomputed from results/.

`python -m benchmarks.results_page` writes the tables of the page between their marks; a test holds
the page to them and to `sentences`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from benchmarks import (
    agents_page,
    beginnings_page,
    curves_page,
    declared_page,
    games_page,
    parts_page,
)
from reprl.analysis.curves import load_curve
from reprl.analysis.gap import Played, generalization_gap, played
from reprl.analysis.load import Results, collect
from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.summary import overall
from reprl.disk import replacing, write_atomically
from reprl.envs.variation import variants as variants_of
from reprl.runs.agents import shipped
from reprl.schema import CLEAN

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results.md"
METHODS = {  # as the page calls them, in its order
    "ppo-nature": "plain PPO",
    "ppo-nature-gray_boxes": "RAD",
    "ppo-nature-drac-gray_boxes": "DrAC",
    "ppo-nature-contrastive-gray_boxes": "contrastive",
    "ppo-nature-conv_21-decoder+sparsity": "attention + sparsity + decoder",
    "ppo-nature-conv_21-contrastive-gray_boxes": "attention + contrastive",
}
LONG = {
    "RAD": "gray boxes on the training batch (RAD)",
    "DrAC": "kept the same on gray boxes (DrAC)",
    "contrastive": "contrastive, gray boxes as views",
    "attention + contrastive": "attention + contrastive, gray boxes as views",
}
PUBLISHED = declared_page.PUBLISHED
PLAIN, CURL = "ppo-nature", "ppo-nature-contrastive-gray_boxes"
MASKED = ("attention + sparsity + decoder", "attention + contrastive")
BY_PPO = {  # folders of results/: PPO on other inputs, with the first sweep's steps and settings
    "ppo_background": ("ppo-nature_background", "PPO on the slow memory (`experiment=background`)"),
    "ppo_differences": ("ppo-nature_differences", "PPO on differences (`experiment=differences`)"),
}
STEPS = (50_000, 100_000, 150_000, 200_000)


@lru_cache(maxsize=4)
def results(name: str = "methods") -> Results:
    return collect([ROOT / "results" / name])


@lru_cache(maxsize=4)
def table(name: str = "methods") -> Played:
    return played(results(name).episodes)


def against(method: str, other: str = PLAIN, variants: list[str] | None = None) -> Difference:
    """A difference of two methods on the mean of the published variants."""
    names = variants or PUBLISHED
    return difference(table().sample(method, names), table().sample(other, names))


def each_seed() -> str:
    """Mean of every seed's games on every variant."""
    lines = [f"| method, 200,000 steps | {CLEAN} | " + " | ".join(PUBLISHED) + " |"]
    lines.append("|---" * 6 + "|")
    for method, name in METHODS.items():
        part = table().scores.loc[method]
        cells = [" / ".join(f"{x:.1f}" for x in part[v]) for v in (CLEAN, *PUBLISHED)]
        lines.append(f"| {LONG.get(name, name)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def means() -> str:
    """Means over seeds with intervals."""
    summary = overall(results().episodes).set_index("method")
    lines = [
        "| method | clean game | mean of the variants | near | far | kept of what it learned | "
        "against plain |",
        "|---" * 7 + "|",
    ]
    for method, name in METHODS.items():
        row = summary.loc[method]
        cells = [_points(row, key) for key in ("clean", "score", "near", "far")]
        cells.append(_percent(row))
        if method == PLAIN:
            cells.append("")
        else:
            cells.append(_gap(against(method)))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def looks() -> str:
    """Share of looks with the peak of the map on the object."""
    lines = ["| method | ball, original | ball, green_lines | the lines, green_lines |"]
    lines.append("|---" * 4 + "|")
    for method, name in METHODS.items():
        cells = []
        for variant, thing in (
            (CLEAN, "ball"),
            ("green_lines", "ball"),
            ("green_lines", "distractor"),
        ):
            cells.append(" / ".join(f"{x:.2f}" for x in pointing(method, variant, thing)))
        mask = ", its mask" if name in MASKED else ""
        lines.append(f"| {name}{mask} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pointing(
    method: str, variant: str, thing: str, column: str = "value", *, of: str = "methods"
) -> list[float]:
    """Per seed, how often the map's peak lies on a thing (or what it is held against)."""
    rows = results(of).attention
    chosen = (rows["method"] == method) & (rows["variant"] == variant)
    chosen &= (rows["object"] == thing) & (rows["metric"] == "pointing")
    return [float(x) for x in rows[chosen].sort_values("train_seed")[column]]


def learning() -> str:
    """Training scores at some steps, by seed."""
    lines = ["| training score at | " + " | ".join(METHODS.values()) + " |", "|---" * 7 + "|"]
    for step in STEPS:
        cells = []
        for method in METHODS:
            runs = sorted((r for r in results().runs if r.method == method), key=lambda r: r.seed)
            cells.append(" / ".join(f"{score_at(run.metrics, step):.1f}" for run in runs))
        lines.append(f"| {step:,} steps | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def score_at(metrics: pd.DataFrame | None, step: int) -> float:
    """The training score in the last row up to a step, or in the first one after it."""
    assert metrics is not None
    curve = load_curve(metrics)
    assert curve is not None
    steps, values = curve
    return float(values[np.argmin(np.abs(steps - step))])


def first_scores() -> str:
    """The three agents at 300,000 steps."""
    scores, steps = table("first").scores, {}
    for run in results("first").runs:
        steps[run.method] = int(str(run.record.get("step", 0)))
    random = scores.loc["random"].mean()
    lines = [f"| agent | steps | {CLEAN} | " + " | ".join(PUBLISHED) + " |", "|---" * 7 + "|"]
    cells = [f"{random[v]:.1f}" for v in (CLEAN, *PUBLISHED)]
    lines.append("| random play | | " + " | ".join(cells) + " |")
    for method, part in scores.groupby(level="method", sort=False):
        if method in steps:
            cells = [f"{part[v].mean():.1f}" for v in (CLEAN, *PUBLISHED)]
            trained = f"{round(steps[str(method)], -3):,}"
            lines.append(f"| {FIRST[str(method)]} | {trained} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def first_learning() -> str:
    """Training scores of the three agents, as far as each was trained."""
    runs = {run.method: run for run in results("first").runs}
    lines = ["| steps | plain | attention + contrastive | gray boxes (RAD) |", "|---" * 4 + "|"]
    for step in (*STEPS, 250_000, 300_000):
        cells = []
        for method in (PLAIN, WITH_MASK, "ppo-nature-gray_boxes"):
            trained = int(str(runs[method].record.get("step", 0)))
            known = trained >= step
            cells.append(f"{score_at(runs[method].metrics, step):.1f}" if known else "")
        lines.append(f"| {step:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def first_looks() -> str:
    """Where the peaks of the three agents' maps lie, with what a random place would give."""
    lines = ["| agent | view | variant | ball | paddle | distractor |", "|---" * 6 + "|"]
    agents = {PLAIN: "plain", "ppo-nature-gray_boxes": "gray boxes"}
    agents[WITH_MASK] = "attention + contrastive"
    for method, name in agents.items():
        for variant in (CLEAN, "green_lines"):
            cells = []
            for thing in ("ball", "paddle", "distractor"):
                value = pointing(method, variant, thing, of="first")
                chance = pointing(method, variant, thing, "chance", of="first")
                digits = 3 if thing == "ball" else 2
                cells.append(f"{value[0]:.2f} ({chance[0]:.{digits}f})" if value else "")
            view = "its mask" if method == WITH_MASK else "gradient"
            lines.append(f"| {name} | {view} | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


WITH_MASK = "ppo-nature-conv_21-attention_contrastive-gray_boxes"
FIRST = {
    "ppo-nature": "plain PPO",
    "ppo-nature-gray_boxes": "gray boxes on the training batch (`rad_boxes`)",
    WITH_MASK: "attention + contrastive (`attention_contrastive`)",
}


WEAK = "initialisation/sb3_s11"  # 20,480 steps of imitation
CONTINUED = {  # folder of results/ppo_from_imitation: whom PPO went on from, and their games
    "best": ("`agent:imitation_best`", "agents/imitation_best"),
    "s14": ("seed 14 of `imitation_background`", "imitation/imitation_background-s14"),
    "imitation": ("`agent:imitation`", "agents/imitation"),
    "imitation_background": ("`agent:imitation_background`", "agents/imitation_background"),
    "weak": ("seed 11 of `sb3` below, a weak agent", WEAK),
}


def continued() -> str:
    """Points of imitated agents, and of the same ones after PPO went on from them."""
    shown = (CLEAN, "green_lines")
    heads = [f"{variant}, {when}" for variant in shown for when in ("before", "after PPO")]
    lines = ["| PPO from | steps | rate | " + " | ".join(heads) + " |", "|---" * 7 + "|"]
    changed: dict[str, list[str]] = {"gains from": [], "loses from": []}
    for name, (words, origin) in CONTINUED.items():
        place = ROOT / "results" / "ppo_from_imitation" / name
        after = pd.read_csv(place / "evaluation" / "episodes.csv")
        before = pd.read_csv(ROOT / "results" / origin / "evaluation" / "episodes.csv")
        cells = [_games(part, variant) for variant in shown for part in (before, after)]
        rate = yaml.safe_load((place / "config.yaml").read_text())["algo"]["learning_rate"]
        lines.append(
            f"| {words} | {after['step'].iloc[0]:,} | {rate:g} | " + " | ".join(cells) + " |"
        )
        first, second = (g.loc[g["variant"] == CLEAN, "episode_return"] for g in (before, after))
        difference_ = second.mean() - first.mean()
        if abs(difference_) > 2 * np.hypot(first.sem(), second.sem()):
            changed["gains from" if difference_ > 0 else "loses from"].append(words)
    said = [f"{verb} {declared_page.listed(names)}" for verb, names in changed.items() if names]
    rest = "of the others the score on the clean game changes by less than two standard errors"
    return "\n".join(lines) + f"\n\nPPO {', '.join(said)}; {rest}, one run each."


def _games(games: pd.DataFrame, variant: str) -> str:
    points = games.loc[games["variant"] == variant, "episode_return"]
    return f"{points.mean():.0f} ± {points.sem():.0f}" if len(points) else ""


def by_ppo() -> str:
    """PPO on other inputs beside plain PPO and the best method of the first sweep."""
    shown = [(table(), m, METHODS[m]) for m in (PLAIN, "ppo-nature-drac-gray_boxes")]
    shown += [(table(folder), *names) for folder, names in BY_PPO.items()]
    lines = [f"| method | {CLEAN} | " + " | ".join(PUBLISHED) + " | kept of what it learned |"]
    lines.append("|---" * 7 + "|")
    for of, method, name in shown:
        part = of.scores.loc[method]
        cells = [" / ".join(f"{x:.1f}" for x in part[v]) for v in (CLEAN, *PUBLISHED)]
        cells.append(declared_page.percent(parts_page.kept(of, method)))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def notes() -> str:
    """What former users of these variants noted, and what the runs here say of it."""
    scores = table().scores
    declared = declared_page.table()
    frames, slow = "imitation-nature", "imitation-nature_background"

    def by_seed(variant: str) -> str:
        ppo = " / ".join(f"{x:.1f}" for x in scores.loc[PLAIN, variant])
        seen = " / ".join(f"{x:.0f}" for x in declared.scores.loc[frames, variant])
        return f"plain PPO {ppo}, imitation on frames {seen}"

    def kept(variant: str) -> str:
        return f"the slow memory keeps {declared_page.percent(declared_page.kept(slow, variant))}"

    contrast = difference(
        *(declared.sample(m, PUBLISHED) for m in (declared_page.CONTRASTIVE, frames))
    )
    diagonals = scores.loc[list(METHODS), "diagonals"].groupby(level="method").mean().max()
    method, _ = BY_PPO["ppo_background"]
    by_slow_ppo = " / ".join(
        f"{x:.1f}" for x in table("ppo_background").scores.loc[method, "diagonals"]
    )
    alone = [
        declared_page.kept(frames, "constant_rectangle"),
        table().retention(PLAIN, {"constant_rectangle": 1.0}),
    ]
    lost = [
        declared_page.kept(frames, "green_lines"),
        table().retention(PLAIN, {"green_lines": 1.0}),
    ]
    solved = declared_page.kept(slow, "green_lines")
    hardest = declared_page.kept(slow, "diagonals")
    adds = [against(CURL), contrast]
    rows = [
        (
            "`constant_rectangle` is too easy: agents generalize without help",
            _said(all(x.low > 0.8 for x in alone), all(x.high < 0.5 for x in alone)),
            f"{by_seed('constant_rectangle')} points",
        ),
        (
            "`green_lines` is just right",
            _said(all(x.high < 0.5 for x in lost) and solved.low > 0.5, solved.high < 0.5),
            f"it takes everything from agents on frames ({by_seed('green_lines')} points), and "
            f"{kept('green_lines')}",
        ),
        (
            "`diagonals` is too hard for all",
            _said(hardest.high < 0.5, hardest.low > 0.5),
            f"of the first sweep's PPO agents the best method has {diagonals:.1f} points there; "
            f"but PPO on the slow memory makes {by_slow_ppo}, and by imitation {kept('diagonals')}",
        ),
        (
            "contrastive losses help generalization",
            _said(all(x.low > 0 for x in adds), all(x.high < 0 for x in adds)),
            f"{_gap(against(CURL))} points against plain PPO, boxes in its views, three seeds "
            f"each; by imitation, {contrast.n_first} runs, {_gap(contrast)} against frames alone",
        ),
        (
            "attention misses the border, and is wrong after resizing",
            "explained",
            "no cell of NatureCNN's 7x7 is centred on the paddle ([attention](attention.md)); a "
            "21x21 mask can point there",
        ),
        ("initialisation decides the speed of learning", *beginnings_page.decided()),
    ]
    lines = ["| they noted | here | by |", "|---|---|---|"]
    return "\n".join(lines + [f"| {a} | {b} | {c} |" for a, b, c in rows])


def _said(held: bool, refuted: bool) -> str:
    """The verdict on what somebody noted."""
    return "held" if held else "refuted" if refuted else "undecided"


TABLES = (
    declared_page.TABLES
    | agents_page.TABLES
    | games_page.TABLES
    | parts_page.TABLES
    | beginnings_page.TABLES
    | {
        "notes": notes,
        "continued": continued,
        "by ppo": by_ppo,
        "seeds": each_seed,
        "means": means,
        "looks": looks,
        "learning": learning,
        "first": first_scores,
        "first learning": first_learning,
        "first looks": first_looks,
    }
)


@lru_cache(maxsize=1)
def sentences() -> dict[str, list[str]]:
    """Every sentence with a number that the page must have, from the results."""
    summary = overall(results().episodes).set_index("method")
    gaps = generalization_gap(results().episodes).set_index(["method", "variant"])
    boxed = [m for m in METHODS if "boxes" in m]
    plain, decoder = PLAIN, "ppo-nature-conv_21-decoder+sparsity"
    drac, both = "ppo-nature-drac-gray_boxes", "ppo-nature-conv_21-contrastive-gray_boxes"
    curl = CURL
    random = table().reference({CLEAN: 1.0})
    assert random.games is not None
    error = random.games[:, 1].std(ddof=1) / np.sqrt(len(random.games))
    clear = [METHODS[m] for m in METHODS if m != plain and against(m).low > 0]
    scores = table().scores
    on_ball = [_times(m, CLEAN) for m in METHODS if METHODS[m] not in MASKED]
    varied = [_times(m, "green_lines") for m in METHODS if METHODS[m] not in MASKED]
    clean_ball = [x for row in on_ball for x in row]
    lined_ball = [x for row in varied for x in row]
    near = against(both, curl, ["green_lines"])
    page = [
        f"random play scores {random.clean:.2f} +- {error:.2f} ({len(random.games)} games)",
        "The four methods that met random gray boxes keep "
        f"{_range(summary.loc[boxed, 'retention'])}, the two that did not "
        f"{_range(summary.loc[[plain, decoder], 'retention'])}.",
        f"The differences of {declared_page.listed(clear)} to plain PPO have intervals that "
        "exclude 0",
        f"DrAC's is the largest, {_gap(against(drac))}, and no loss on the clean game is "
        f"seen ({_gap(against(drac, plain, [CLEAN]))}).",
        f"DrAC is also clear of RAD ({_gap(against(drac, 'ppo-nature-gray_boxes'))})",
        f"but not of attention + contrastive ({_gap(against(drac, both))}) or contrastive "
        f"({_gap(against(drac, curl))})",
        f"does as plain PPO does on the variants ({_gap(against(decoder))}).",
        f"does about as without the mask ({_gap(against(both, curl))}), on `green_lines` "
        f"{_gap(near)}",
        f"no run scores more than {scores.loc[list(METHODS), 'diagonals'].max():.1f} there, no "
        f"method more than {gaps['score'].loc[list(METHODS), 'diagonals'].max():.1f} on average.",
        f"one of three contrastive runs had hardly begun to learn at 200,000 steps "
        f"({scores.loc[curl, CLEAN].min():.1f} on the clean game)",
        f"On the clean game all gradients peak on the ball {min(clean_ball):.0f} to "
        f"{max(clean_ball):.0f} times as often as chance, with the lines drawn "
        f"{min(lined_ball):.0f} to {max(lined_ball):.0f} times.",
        f"Contrastive peaks on the lines less often than chance with {_below(curl)} of 3 seeds, "
        f"DrAC with {_below(drac)}.",
    ]
    first = overall(results("first").episodes).set_index("method")
    boxes = first.loc["ppo-nature-gray_boxes"]
    page.append(
        f"it keeps {100 * boxes['retention']:.0f} % of what it learned on the variants, and is the "
        "only one that still plays on `diagonals`"
    )
    page += [agents_page.robust(), agents_page.faithful()]
    page += _of_looks(summary)
    page += _of_first(first)
    return {"docs/results.md": page, "README.md": _readme(), "docs/algorithms.md": _algorithms()}


def _of_looks(summary: pd.DataFrame) -> list[str]:
    """What is said of where the sweep's agents look."""
    decoder, both = (m for m, name in METHODS.items() if name in MASKED)
    ball, lines = (
        np.mean(pointing(PLAIN, "green_lines", thing, "chance")) for thing in ("ball", "distractor")
    )
    caught = pointing(PLAIN, "green_lines", "distractor")
    rad = pointing("ppo-nature-gray_boxes", "green_lines", "distractor")
    static = pointing(PLAIN, "green_lines", "distractor", "static")
    peaks = [x for value, x in zip(caught, static, strict=True) if value > 0.5]
    dark = [about["mean"] for about, _ in _masks(decoder)]
    light = [about["mean"] for about, _ in _masks(both)]
    stuck = sum("stuck" in labels for _, labels in _masks(both))
    return [
        f"(a random place gives {ball:.3f} on the ball and {lines:.2f} on the lines)",
        f"Plain PPO peaks on the lines in {_WORDS[round(5 * float(np.mean(caught[::2])))]} looks "
        f"of five with {_WORDS[sum(x > 0.5 for x in caught)]} seeds, and with "
        f"{_WORDS[sum(x <= 0.5 for x in caught)]} not; RAD with "
        f"{_WORDS[sum(x > 0.5 for x in rad)]} seed of {_WORDS[len(rad)]}.",
        f"(`static` {min(peaks):.2f} in scores.csv)",
        f"(mean {np.mean(dark):.2f})",
        f"(mean {np.mean(light):.2f}, {_WORDS[stuck]} of {_WORDS[len(light)]} labelled *stuck*)",
    ]


def _of_first(first: pd.DataFrame) -> list[str]:
    """What is said of the three agents at 300,000 steps."""
    runs = {run.method: run for run in results("first").runs}
    steps = {method: int(str(run.record.get("step", 0))) for method, run in runs.items()}
    boxes = "ppo-nature-gray_boxes"
    seen = [pointing(boxes, v, "ball", of="first")[0] for v in (CLEAN, "green_lines")]
    (about, _), *_ = _masks(WITH_MASK, of="first")
    rows = results("first").attention
    own = rows[(rows["method"] == WITH_MASK) & (rows["variant"] == CLEAN)]
    (bricks,) = own[(own["object"] == "bricks") & (own["metric"] == "energy")].to_dict("records")
    paddle = [
        pointing(WITH_MASK, "green_lines", "paddle", column, of="first")[0]
        for column in ("value", "static")
    ]
    times = pointing(PLAIN, CLEAN, "ball", of="first")[0]
    times /= pointing(PLAIN, CLEAN, "ball", "chance", of="first")[0]
    assert 55 < times < 65
    return [
        f"takes it from {first.loc[PLAIN, 'clean']:.1f} points to random play.",
        f"had had {round(steps[PLAIN] - steps[boxes], -3):,} steps less",
        "peaks on the ball sixty times as often as chance would",
        f"goes on looking at the ball ({seen[0]:.2f} and {seen[1]:.2f}).",
        f"(mean {about['mean']:.2f}, entropy {about['entropy']:.2f})",
        f"({100 * bricks['value']:.0f} % of it lies on {100 * bricks['chance']:.0f} % of the "
        "picture)",
        f"{paddle[0]:.2f} of looks are on the paddle, but its average map alone would be there in "
        f"{paddle[1]:.2f}.",
        f"an agent that scores {first.loc[WITH_MASK, 'clean']:.0f} cannot be blind to it",
    ]


def _algorithms() -> list[str]:
    """What the page of algorithms says of PPG and IDAAC in CoinRun and of curiosity in Pitfall."""
    found = games_page.explored("pitfall").set_index("method")
    scenes = found["rooms"]
    ppg, idaac, drac = "procgen_ppg", "procgen_idaac", "procgen_drac_xavier"
    clipped = [
        float(np.mean(games_page.coinrun_clipped(m)))
        for m in (f"{ppg}_sb3", f"{idaac}_sb3", ppg, idaac)
    ]
    others = [*games_page.coinrun_clipped("procgen"), *games_page.coinrun_clipped("procgen_drac")]
    unseen = {m: games_page.coinrun_against(m, drac, "unseen") for m in (ppg, idaac)}
    chance = games_page.coinrun_random("unseen")
    above = [np.mean(games_page.coinrun_points(m, "unseen")) - chance for m in (ppg, idaac, drac)]
    (seeds,) = {len(games_page.coinrun(m)) for m in (ppg, idaac, drac)}
    large, small = (" and ".join(f"{x:.2f}" for x in pair) for pair in (clipped[:2], clipped[2:]))
    return [
        f"Their first two updates clip {large} of the actions, with Xavier's weights {small}",
        f"PPO and DrAC with SB3's weights clip up to {max(others):.2f} there, and learn",
        "On levels they never saw PPG differs from DrAC with the same weights by "
        f"{_gap(unseen[ppg])} points, IDAAC by {_gap(unseen[idaac])} ({_WORDS[seeds]} seeds each",
        f"random play is {min(above):.1f} to {max(above):.1f} points below them",
        f"({scenes['ppo with rnd']} scenes with curiosity, {scenes['ppo']} without, "
        f"{found['steps'].max():,} steps, one seed)",
    ]


def _readme() -> list[str]:
    """What README says of shipped agents beside their scores, and of the variants."""
    steps, games = set(), set()
    for folder in (shipped()[name] for name in ("imitation", "imitation_background")):
        steps.add(json.loads((folder / "run.json").read_text())["step"])
        played_ = pd.read_csv(folder / "evaluation" / "episodes.csv")
        main = played_[played_["variant"].isin([CLEAN, *PUBLISHED])]
        games |= set(main.groupby("variant").size())
    (step,), (count,) = steps, games
    variants = len(variants_of("breakout")) - 1  # without the clean game
    adaptive, plain = (_behind_lines(name) for name in ("imitation_mask", "imitation_where"))
    best = agents_page.published_games("imitation_best").groupby("variant")["episode_return"].mean()
    slow, frames = (declared_page.kept_span(m) for m in (declared_page.SLOW, declared_page.FRAMES))
    return [
        "agents that see the difference to a slow memory of the picture keep "
        f"{slow} of what they learned on four drawings they never saw, agents on frames {frames}.",
        f"{best[CLEAN]:.0f} points, and at least {best[PUBLISHED].min():.0f} on each of the four "
        "published variants.",
        agents_page.robust(),
        f"its peak is on ball or paddle in {100 * adaptive['value']:.0f} % of looks behind the "
        f"lines, by chance {100 * adaptive['chance']:.1f} %.",
        f"its peak is there in {100 * plain['value']:.0f} % of looks behind the lines",
        f"for {step:,} steps, one seed, {count} games a variant.",
        f"on {variants} variants of the real game",
        f"{variants} changes of picture and physics",
    ]


def _behind_lines(name: str) -> pd.Series:
    """How often the mask of a shipped agent peaks on ball or paddle behind green lines."""
    scores = pd.read_csv(shipped()[name] / "attention" / "scores.csv")
    keys = ["object", "variant", "metric"]
    found: pd.Series = scores.set_index(keys).loc[("ball or paddle", "green_lines", "pointing")]
    return found


def _masks(method: str, *, of: str = "methods") -> list[tuple[dict[str, float], list[str]]]:
    """What was noted of each run's mask on the clean game, and its labels."""
    found = []
    for run in sorted((r for r in results(of).runs if r.method == method), key=lambda r: r.seed):
        noted = json.loads((run.path / "attention" / "labels.json").read_text())
        found.append((noted["about"][CLEAN], run.labels.get(CLEAN, [])))
    return found


def _times(method: str, variant: str) -> list[float]:
    """How many times as often as chance a map's peak is on the ball, per seed."""
    pairs = zip(
        pointing(method, variant, "ball"), pointing(method, variant, "ball", "chance"), strict=True
    )
    return [value / chance for value, chance in pairs]


_WORDS = ("no", "one", "two", "three", "four", "five")


def _below(method: str) -> int:
    lines = pointing(method, "green_lines", "distractor")
    chance = pointing(method, "green_lines", "distractor", "chance")
    return sum(a < b for a, b in zip(lines, chance, strict=True))


def _gap(found: Difference) -> str:
    return f"{found.value:+.1f} [{found.low:.1f}, {found.high:.1f}]"


def _range(shares: Iterable[float]) -> str:
    values = [100 * float(share) for share in shares]
    return f"{min(values):.0f} to {max(values):.0f} %"


def _points(row: pd.Series, key: str) -> str:
    return f"{row[key]:.1f} [{row[f'{key}_low']:.1f}, {row[f'{key}_high']:.1f}]"


def _percent(row: pd.Series) -> str:
    value, low, high = (100 * row[f"retention{end}"] for end in ("", "_low", "_high"))
    return f"{value:.0f} % [{low:.0f}, {high:.0f}]"


def made(page: str) -> str:
    """The page with all tables made anew."""
    for name, make in TABLES.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end {name} -->)"
        page, count = re.subn(pattern, lambda m, make=make: m[1] + make() + m[2], page, flags=re.S)
        assert count == 1, f"the page has no place for '{name}'"
    return page


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    write_atomically(PAGE, made(PAGE.read_text()))
    for of in (declared_page, curves_page):
        with replacing(of.PICTURE) as draft:
            of.figure().savefig(draft, dpi=140, format="png")
    for file, lines in sentences().items():
        print(file, *lines, sep="\n  ")


if __name__ == "__main__":
    main()
