"""The report's title: from the summary of all methods to the one sentence a reader should keep.

Which method scores most on the variants, by how much more than the baseline, and where nobody
plays; below it, what was measured: methods, seeds, steps, games and how actions were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reprl.analysis.coverage import main_variants
from reprl.analysis.gap import Played, prepare, random_scores
from reprl.analysis.lengths import training_steps
from reprl.analysis.load import Results
from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.tables import form
from reprl.claims import Claims
from reprl.errors import UserError, nearest
from reprl.naming import is_baseline, is_plain, trained_variants
from reprl.schema import CLEAN

# Nobody plays a variant where no method keeps this share of what the best learned on the clean
# game, above random play.
PLAYED = 0.2
# An agent looks at an object where its map peaks on it so many times as often as by chance.
LOOKS = 3.0


@dataclass(frozen=True)
class Finding:
    """The sentence, and the baseline it is held against (None where there is none)."""

    title: str
    baseline: str | None
    differences: dict[str, Difference]  # method -> method minus baseline, mean of the variants
    best: str | None = None  # the method the sentence is about, where methods can be ranked


def choose_baseline(
    results: Results, declared: Sequence[Claims], asked: str | None, called: dict[str, str]
) -> str | None:
    """What methods are held against: as asked, else as all claims declare, else the plain agent.

    `called` has the recorded method of every name in the report.
    """
    names = list(dict.fromkeys(run.method for run in results.runs))

    def known(text: str) -> list[str]:
        runs = [r for r in results.runs if r.record.get("experiment") == text]
        recorded = [n for n in names if called.get(n) == text]
        return list(dict.fromkeys([*(n for n in names if n == text), *recorded]))[:1] or list(
            dict.fromkeys(r.method for r in runs)
        )

    if asked is not None:
        found = known(asked)
        if len(found) != 1:
            raise UserError(
                f"baseline={asked}: there is no such method here: choose from {', '.join(names)}."
                f"{nearest(asked, names)}"
            )
        return found[0]
    claimed = {name for file in declared for c in file.claims for name in known(c.baseline)}
    if len(claimed) == 1:
        return claimed.pop()
    plain = {run.method for run in results.runs if is_plain(run.config)}
    return plain.pop() if len(plain) == 1 else None


def differences(table: Played, baseline: str | None) -> dict[str, Difference]:
    """Every trained method minus the baseline on the mean of the variants all runs share."""
    variants = main_variants(table.scores)
    methods = table.methods()
    if baseline not in methods or not variants:
        return {}
    base = table.sample(str(baseline), variants)
    others = [m for m in methods if m != baseline and not is_baseline(m)]
    found = {m: difference(table.sample(m, variants), base) for m in others}
    return {m: d for m, d in found.items() if np.isfinite(d.value)}


def unplayed(table: Played, ranked: Sequence[str]) -> list[str]:
    """Variants on which no ranked method keeps a fifth of what the best of them learned."""
    if CLEAN not in table.scores.columns or not ranked:
        return []
    random = random_scores(table.scores)
    means = table.scores.groupby(level="method").mean().loc[list(ranked)]
    learned = float(means[CLEAN].max()) - float(random.get(CLEAN, np.nan))
    if not learned >= 1:
        return []
    kept = {v: float(means[v].max()) - float(random[v]) for v in main_variants(table.scores)}
    return [v for v, points in kept.items() if points < PLAYED * learned]


def finding(table: Played | None, summary: pd.DataFrame, baseline: str | None) -> Finding:
    """The title of a report."""
    if table is None or summary.empty:
        return Finding("Nothing has been evaluated yet", baseline, {})
    found = differences(table, baseline)
    ranked = summary[summary["order"].notna()].sort_values("order")
    if ranked.empty:
        poor = all(r is False for r in summary["ranked"])
        some = summary[summary["score"].notna()].sort_values("score", ascending=False)
        title = "No method was played on the variants yet"
        if poor:
            few = {1: "The only method is not", 2: "Neither method is"}
            who = few.get(len(summary), f"None of the {len(summary)} methods is")
            title = f"{who} better than random play yet"
        elif len(some):
            best, points = some.iloc[0]["method"], form(some.iloc[0]["score"], "score")
            title = f"{best} scores {points} on the variants; nothing can be ranked yet"
        return Finding(title, baseline, found)
    names = [str(m) for m in ranked["method"]]
    title = _first(ranked, summary, baseline, found)
    dark = unplayed(table, names)
    if dark and len(dark) < 4:
        title += f"; on {' and '.join(dark)} nobody plays"
    return Finding(title, baseline, found, names[0])


def _first(
    ranked: pd.DataFrame,
    summary: pd.DataFrame,
    baseline: str | None,
    found: dict[str, Difference],
) -> str:
    best = ranked.iloc[0]
    name, points = str(best["method"]), form(best["score"], "score")
    clean = form(best["clean"], "score")
    if not np.isfinite(best["score"]):
        return f"{name} scores {clean} on the clean game; no variant was played by all"
    base = summary[(summary["method"] == baseline) & summary["score"].notna()]
    if name == baseline and len(ranked) > 1:
        second = ranked.iloc[1]
        return (
            f"Nothing beats {name}: {points} points on the variants, "
            f"{second['method']} {form(second['score'], 'score')}"
        )
    if name in found and len(base):
        against = form(base.iloc[0]["score"], "score")
        text = f"{points} points on the variants against {against} of {baseline}"
        gap = found[name]
        if np.isfinite(gap.low):
            words = f"{text} ({signed(gap)})"
            return (
                f"{name} scores most: {words}"
                if gap.low > 0
                else f"{name} scores most, perhaps by chance: {words}"
            )
        return f"{name} scores most: {text}"
    if len(ranked) > 1:
        second = ranked.iloc[1]
        clear = best["score_low"] > second["score_high"]
        how = "scores most" if clear else "scores most, perhaps by chance"
        if not np.isfinite(best["score_low"]):
            how = "scores most"
        other = f"{second['method']} {form(second['score'], 'score')}"
        return f"{name} {how}: {points} points on the variants, {other}"
    return f"{name} scores {points} points on the variants and {clean} on the clean game"


def best_in_words(
    table: Played | None, best: str | None, seen: Mapping[str, str], tracked: str | None
) -> str:
    """The best method's weakness and where it looks; `seen` is what where_it_looks() says of it."""
    if table is None or best is None:
        return ""
    means = table.scores.loc[[best]].mean()
    variants = [v for v in main_variants(table.scores) if np.isfinite(means[v])]
    words = []
    if variants:
        worst = min(variants, key=lambda v: float(means[v]))
        text = f"Weakest on {worst}: {form(float(means[worst]), 'score')} points"
        if np.isfinite(means.get(CLEAN, np.nan)):
            text += f" ({form(float(means[CLEAN]), 'score')} on the clean game)"
        words.append(f"{text}.")
    times = [
        (seen[key], what)
        for key, what in (("clean", ""), ("varied", " on the variants"))
        if key in seen
    ]
    if not times or tracked is None:
        return " ".join([*words, "Where it looks was not measured."])
    follows = max(float(ratio.rstrip("×")) for ratio, _ in times) >= LOOKS
    text = f"{'Looks' if follows else 'Does not look'} at the {tracked}: its {seen['view']} peaks "
    (ratio, where), *others = times
    text += f"there {ratio} as often as chance{where}"
    text += "".join(f", {more}{there}" for more, there in others)
    if "distractor" in seen:
        text += f"; at what is drawn over the game {seen['distractor']}"
    return " ".join([*words, f"{text}."])


def signed(gap: Difference) -> str:
    """A difference as people write it: +4.9 [3.2, 6.6]."""
    sign = "+" if gap.value > 0 else ""
    text = f"{sign}{form(gap.value, 'score')}"
    if np.isfinite(gap.low):
        text += f" [{form(gap.low, 'score')}, {form(gap.high, 'score')}]"
    return text


def measured_how(results: Results) -> list[str]:
    """What was measured, in a few words each: methods and seeds, steps, games, actions, game."""
    methods = list(dict.fromkeys(run.method for run in results.runs))
    seeds = {m: len({r.seed for r in results.runs if r.method == m}) for m in methods}
    words = [_count(len(methods), "method")]
    if seeds:
        low, high = min(seeds.values()), max(seeds.values())
        words[0] += f" × {low}{f' to {high}' if high > low else ''} seed{'s' * (high > 1)}"
    steps = [s for s in training_steps(results).values() if s > 0]
    if steps:
        words.append(f"{_between(min(steps), max(steps))} steps")
    if len(results.episodes):
        frame = prepare(results.episodes)
        trained = frame[~frame["method"].map(is_baseline)]
        if len(trained):
            sizes = trained.groupby(["run", "variant"]).size()
            greedy = trained["deterministic"].astype(str).str.lower().isin(("true", "1"))
            how = "greedy" if greedy.all() else "sampled"
            games = _between(int(sizes.min()), int(sizes.max()))
            words.append(f"{games} {how} games a run and variant")
    met = {v for run in results.runs for v in trained_variants(run.config)}
    if results.runs:
        clean = "the clean game only" if met <= {CLEAN} else ", ".join(sorted(met))
        words.append(f"trained on {clean}")
        words.append(", ".join(sorted({run.game for run in results.runs})))
    return words


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _between(low: float, high: float) -> str:
    """A number, or two where they differ by more than a rollout's length."""
    return f"{high:,.0f}" if low >= 0.98 * high else f"{low:,.0f} to {high:,.0f}"
