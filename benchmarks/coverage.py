"""How often intervals hold what they promise: the simulations behind docs/statistics.md.

`python -m benchmarks.coverage` simulates experiments with the variances measured in
results/methods and writes the tables of the page between its marks. Everything is vectorised over
experiments: tables (E, R, J) of E experiments, R runs and J games. Ratings are simulated apart from
them, from scores (E, S, V, n) of E experiments, S starts, V variants and n agents.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from reprl.analysis.gap import played
from reprl.analysis.load import collect
from reprl.analysis.stats import Array, variance_components
from reprl.disk import write_atomically
from reprl.evaluation.rating import SCALE, deviance, strengths
from reprl.naming import is_baseline
from reprl.rng import numpy_stream

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "statistics.md"
SEEDS = (3, 5, 10, 20)
MEAN = 10.0  # of the simulated methods, in points
FAILING = 0.2  # how many runs never learn, where some do not
FAILED = 1.4  # points of a run that failed
STARTS = (3, 5, 20, 100)  # of ratings
DRAWN = 2.5  # points apart, in standard units of a Gumbel's luck, that scores are rounded to


@dataclass(frozen=True)
class Variances:
    """Between runs, between games, and what is left, in squared points."""

    run: float
    game: float
    rest: float


def measured(folder: Path = ROOT / "results" / "methods") -> pd.DataFrame:
    """The components of every method and variant: method, variant, run, game, rest."""
    table = played(collect([folder], random_play=False).episodes)
    rows = []
    for method in table.methods():
        for variant in table.variants(method):
            sample = table.sample(method, [variant])
            if not is_baseline(method) and sample.games is not None:
                rows.append((method, variant, *variance_components(sample.games)))
    return pd.DataFrame(rows, columns=["method", "variant", "run", "game", "rest"])


def typical(components: pd.DataFrame) -> Variances:
    """The mean over methods and variants, and never below 0."""
    means = components[["run", "game", "rest"]].mean().clip(lower=0)
    return Variances(float(means["run"]), float(means["game"]), float(means["rest"]))


def worst(components: pd.DataFrame) -> Variances:
    """Where nearly all is the luck of the games: the largest game's share of any cell."""
    known = components[["run", "game", "rest"]].clip(lower=0)
    share = known["game"] / known.sum(axis=1).clip(lower=1e-9)
    chosen = known.loc[share.idxmax()]
    return Variances(float(chosen["run"]), float(chosen["game"]), float(chosen["rest"]))


def normal(rng: np.random.Generator, shape: tuple[int, int], spread: float) -> Array:
    return MEAN + rng.normal(0, spread, shape)


def skewed(rng: np.random.Generator, shape: tuple[int, int], spread: float) -> Array:
    """Runs of one good one among many middling: a gamma distribution of skewness 2."""
    return MEAN + spread * (rng.gamma(1.0, 1.0, shape) - 1.0)


def failing(rng: np.random.Generator, shape: tuple[int, int], spread: float) -> Array:
    """A fifth of the runs never learns; the others are normal."""
    good = rng.normal(MEAN, spread, shape)
    return np.where(rng.random(shape) < FAILING, FAILED, good)


RUNS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int], float], Array], float]] = {
    "normal": (normal, MEAN),
    "skewed": (skewed, MEAN),
    "failing": (failing, FAILING * FAILED + (1 - FAILING) * MEAN),
}


def simulate(
    rng: np.random.Generator, kind: str, v: Variances, shape: tuple[int, int, int], *, own: bool
) -> Array:
    """Scores (E, R, J): a run's skill, a game's luck (common to the runs, or its own), rest."""
    experiments, runs, games = shape
    skill = RUNS[kind][0](rng, (experiments, runs), np.sqrt(v.run))[:, :, None]
    luck = rng.normal(0, np.sqrt(v.game), shape if own else (experiments, 1, games))
    return np.asarray(skill + luck + rng.normal(0, np.sqrt(v.rest), shape))


def t_bounds(table: Array) -> tuple[Array, Array]:
    """Student t over the runs' means: the interval for games of their own."""
    means = table.mean(axis=2)  # (E, R)
    count = means.shape[1]
    half = stats.t.ppf(0.975, count - 1) * means.std(axis=1, ddof=1) / np.sqrt(count)
    return means.mean(axis=1) - half, means.mean(axis=1) + half


def two_way_bounds(table: Array) -> tuple[Array, Array]:
    """reprl.analysis.stats' interval for shared games, over all experiments at once."""
    _, runs, games = table.shape
    by_run, by_game, grand = table.mean(axis=2), table.mean(axis=1), table.mean(axis=(1, 2))
    run = games * by_run.var(axis=1, ddof=1)
    game = runs * by_game.var(axis=1, ddof=1)
    total = ((table - grand[:, None, None]) ** 2).sum(axis=(1, 2))
    freedom = (runs - 1) * (games - 1)
    rest = np.maximum(total - run * (runs - 1) - game * (games - 1), 0) / freedom
    common = game > rest
    variance = run + np.where(common, game - rest, 0)
    spread = run**2 / (runs - 1) + np.where(common, game**2 / (games - 1) + rest**2 / freedom, 0)
    degrees = np.maximum(1.0, variance**2 / spread)  # as satterthwaite() has it
    half = stats.t.ppf(0.975, degrees) * np.sqrt(variance / (runs * games))
    return grand - half, grand + half


def cells_bounds(table: Array, rng: np.random.Generator, draws: int = 300) -> tuple[Array, Array]:
    """rliable's stratified bootstrap of scores (E, R, V): every variant resampled by itself."""
    experiments, runs, variants = table.shape
    low, high = np.empty(experiments), np.empty(experiments)
    places = np.arange(variants)
    for e in range(experiments):
        index = rng.integers(runs, size=(draws, runs, variants))
        means = table[e][index, places].mean(axis=(1, 2))
        low[e], high[e] = np.quantile(means, [0.025, 0.975])
    return low, high


def bca_bounds(means: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """scipy's BCa bootstrap over runs (E, R)."""
    found = stats.bootstrap((means,), np.mean, axis=1, n_resamples=999, method="BCa", rng=rng)
    return found.confidence_interval.low, found.confidence_interval.high


def welch_bounds(x: Array, y: Array) -> tuple[Array, Array]:
    """Welch over runs (E, R), (E, S)."""
    found = stats.ttest_ind(x, y, axis=1, equal_var=False).confidence_interval(0.95)
    return np.asarray(found.low), np.asarray(found.high)


def coverage(bounds: tuple[Array, Array], truth: float) -> float:
    """How many of the intervals hold the truth."""
    return float(np.mean((bounds[0] <= truth) & (truth <= bounds[1])))


def of_one_method(kind: str, v: Variances, games: int, experiments: int) -> list[list[float]]:
    """Rows (t on shared games, two-way on shared games, t on own games) by numbers of seeds."""
    truth = RUNS[kind][1]
    rows: list[list[float]] = [[], [], []]
    for runs in SEEDS:
        rng = numpy_stream(0, "coverage", kind, runs)
        shape = (experiments, runs, games)
        shared = simulate(rng, kind, v, shape, own=False)
        own = simulate(rng, kind, v, shape, own=True)
        found = (t_bounds(shared), two_way_bounds(shared), t_bounds(own))
        for row, bounds in zip(rows, found, strict=True):
            row.append(coverage(bounds, truth))
    return rows


def of_a_difference(kind: str, v: Variances, games: int, experiments: int) -> list[float]:
    """Welch over runs with own games, of two methods of which the second has twice the spread."""
    row = []
    for runs in SEEDS:
        rng = numpy_stream(0, "coverage", "difference", kind, runs)
        shape = (experiments, runs, games)
        wide = Variances(4 * v.run, v.game, v.rest)
        x = simulate(rng, kind, v, shape, own=True).mean(axis=2)
        y = simulate(rng, kind, wide, shape, own=True).mean(axis=2)
        row.append(coverage(welch_bounds(x, y), 0.0))
    return row


def of_bootstraps(v: Variances, games: int, experiments: int) -> tuple[list[float], list[float]]:
    """rliable's bootstrap of four variants that one run supplies, and BCa over whole runs."""
    cells, bca = [], []
    for runs in SEEDS:
        rng = numpy_stream(0, "coverage", "bootstrap", runs)
        skill = normal(rng, (experiments, runs), np.sqrt(v.run))[:, :, None]
        noise = np.sqrt((v.game + v.rest) / games)
        scores = skill + rng.normal(0, noise, (experiments, runs, 4))  # (E, R, V)
        cells.append(coverage(cells_bounds(scores, rng), MEAN))
        bca.append(coverage(bca_bounds(scores.mean(axis=2), rng), MEAN))
    return cells, bca


@dataclass(frozen=True)
class Match:
    """Agents that are rated: what they are called, their log strengths, how their games go."""

    name: str
    skills: tuple[float, ...]
    games: str = "independent"
    variants: int = 1

    @property
    def apart(self) -> float:
        """Elo between the best and the worst."""
        return float(SCALE * np.ptp(self.skills))

    def scores(self, rng: np.random.Generator, experiments: int, starts: int) -> Array:
        """Scores (E, S, V, n); independent Gumbel luck makes Bradley and Terry's model true."""
        n = len(self.skills)
        one = (experiments, starts, 1, n)
        shape = (experiments, starts, self.variants, n)
        luck = rng.gumbel(size=one if self.games == "copies" else shape)
        if self.games == "kin":  # every other agent has most of its luck in common
            luck = 0.5 * luck + rng.gumbel(size=(*one[:3], 2))[..., np.arange(n) % 2]
        if self.games == "starts":  # an agent is at home on some starts, on others not
            luck = luck + rng.gumbel(size=one)
        found = np.broadcast_to(np.array(self.skills) + luck, shape)
        return np.asarray(np.round(found / DRAWN) if self.games == "draws" else found)

    def truth(self, starts: int = 100_000) -> Array:
        """Log strengths (n,) with mean 0: what infinitely many starts would say."""
        skills = np.array(self.skills)
        if self.games in ("independent", "copies"):
            return np.asarray(skills - skills.mean())
        rng = numpy_stream(0, "coverage", "ratings", "truth")
        return np.asarray(strengths(wins(self.scores(rng, 1, starts))).best[0])


TWO = tuple(Match("two agents", (0.0, apart)) for apart in (0.0, 1.0, 2.0, 4.0))
MATCHES = (
    *TWO,
    Match("two agents, many draws", (0.0, 1.0), "draws"),
    *(Match("six agents in even steps", tuple(np.linspace(0, d, 6))) for d in (0.0, 2.0, 4.0)),
    Match("six agents, one ahead of the others", (0.0, 0.0, 0.0, 0.0, 0.0, 4.0)),
    Match("twelve agents, six ahead of the others", (0.0,) * 6 + (4.0,) * 6),
    Match("six agents, many draws", tuple(np.linspace(0, 2, 6)), "draws"),
    Match("twelve agents, many draws", tuple(np.linspace(0, 1, 12)), "draws"),
    Match("six agents, three of a kind", tuple(np.linspace(0, 2, 6)), "kin"),
    Match("three agents, five variants alike", (0.0, 1.0, 4.0), "copies", 5),
    Match("three agents, five variants, starts matter", (0.0, 1.0, 4.0), "starts", 5),
)


def wins(scores: Array) -> Array:
    """Wins by start (E, S, n, n), row over column, of scores (E, S, V, n)."""
    own, other = scores[..., :, None], scores[..., None, :]
    won = (own > other) + 0.5 * (own == other)
    return np.asarray(won.sum(axis=2) * (1 - np.eye(scores.shape[-1])))


def of_ratings(match: Match, experiments: int, at_once: int = 250) -> list[tuple[float, float]]:
    """How many intervals hold an agent's rating, by starts: the mean and the lowest of agents."""
    truth, row = match.truth(), []
    for starts in STARTS:
        rng = numpy_stream(0, "coverage", "ratings", match.name, starts, round(match.apart))
        held = []
        for begun in range(0, experiments, at_once):
            drawn = match.scores(rng, min(at_once, experiments - begun), starts)
            found = strengths(wins(drawn))
            held.append(deviance(found, truth) <= found.limit)
        share = np.concatenate(held).mean(axis=0)
        row.append((float(share.mean()), float(share.min())))
    return row


def of_resampled_games(match: Match, experiments: int, draws: int = 200) -> list[float]:
    """The percentile bootstrap over games of two agents without draws, which each win or lose."""
    (worse, better), row = match.skills, []
    for starts in STARTS:
        rng = numpy_stream(0, "coverage", "ratings", "resampled", starts, round(match.apart))
        won = rng.binomial(starts, 1 / (1 + np.exp(worse - better)), (experiments, 1))
        again = rng.binomial(starts, won / starts, (experiments, draws))
        drawn = np.log((again + 0.25) / (starts - again + 0.25))  # each has a quarter of a win more
        low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
        row.append(coverage((low, high), better - worse))
    return row


def rating_table(experiments: int = 2_000) -> str:
    """The page's table of ratings, in Markdown."""
    lines = [
        f"{experiments:,} experiments a cell: the mean over agents and, in brackets, the agent "
        "covered least.",
        "",
        "| 95 % interval of a rating covers, % | Elo between best and worst | "
        + " | ".join(f"{n} starts" for n in STARTS)
        + " |",
        "|---|---:|" + "---:|" * len(STARTS),
    ]
    for match in MATCHES:
        row = of_ratings(match, experiments)
        cells = " | ".join(f"{100 * mean:.0f} ({100 * least:.0f})" for mean, least in row)
        lines.append(f"| {match.name} | {match.apart:.0f} | {cells} |")
    for match in TWO:
        row = _row(of_resampled_games(match, experiments))
        lines.append(f"| percentile bootstrap over games, two agents | {match.apart:.0f} | {row} |")
    return "\n".join(lines) + "\n"


def tables(experiments: int = 20_000, games: int = 20, quick: int = 1_000) -> str:
    """The page's tables, in Markdown."""
    components = measured()
    usual, extreme = typical(components), worst(components)
    lines = [
        f"Measured in results/methods, mean over methods and variants: between runs "
        f"{usual.run:.1f}, between games {usual.game:.1f}, rest {usual.rest:.1f} squared points; "
        f"in the cell with most of it between games {extreme.run:.1f}, {extreme.game:.1f} and "
        f"{extreme.rest:.1f}. {experiments:,} experiments a cell ({quick:,} for bootstraps), "
        f"{games} games a run.",
        "",
        "| 95 % interval of a mean covers, % | runs are | " + _seeds() + " |",
        "|---|---|" + "---:|" * len(SEEDS),
    ]
    names = ("t over runs, shared games", "two-way, shared games", "t over runs, own games")
    cases = [(kind, kind, usual) for kind in RUNS] + [("normal, worst case", "normal", extreme)]
    for label, kind, v in cases:
        for name, row in zip(names, of_one_method(kind, v, games, experiments), strict=True):
            lines.append(f"| {name} | {label} | {_row(row)} |")
    lines += ["", "| 95 % interval of something else covers, % | runs are | " + _seeds() + " |"]
    lines += ["|---|---|" + "---:|" * len(SEEDS)]
    for kind in RUNS:
        row = of_a_difference(kind, usual, games, experiments)
        lines.append(f"| Welch's difference, own games | {kind} | {_row(row)} |")
    cells, bca = of_bootstraps(usual, games, quick)
    lines.append(f"| bootstrap of cells (rliable), four variants | normal | {_row(cells)} |")
    lines.append(f"| BCa bootstrap over whole runs | normal | {_row(bca)} |")
    return "\n".join(lines) + "\n"


def _seeds() -> str:
    return " | ".join(f"{n} seeds" for n in SEEDS)


def _row(values: list[float]) -> str:
    return " | ".join(f"{100 * value:.0f}" for value in values)


def replaced(page: str, made: str, begin: str = "coverage", end: str = "end") -> str:
    """The page with the text between two marks replaced."""
    before, rest = page.split(f"<!-- {begin} -->\n")
    after = rest.split(f"<!-- {end} -->", 1)[1]
    return f"{before}<!-- {begin} -->\n{made}<!-- {end} -->{after}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    made, ratings = tables(), rating_table()
    page = replaced(PAGE.read_text(), made)
    write_atomically(PAGE, replaced(page, ratings, "ratings", "end ratings"))
    print(made, ratings, sep="\n")


if __name__ == "__main__":
    main()
