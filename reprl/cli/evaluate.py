"""`reprl evaluate DIR`: full games on every variant, stored as evaluation/episodes.csv."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprl.cli.arguments import GAME, OUT, TRUST, WANDB, Key, convert, parse
from reprl.config.placement import machine_cores
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.settings import ENV, EPISODES, GAME_SEED, SEVERITY, STEPS, THREADS
from reprl.validation import Number

if TYPE_CHECKING:
    import pandas as pd

    from reprl.envs import Variant
    from reprl.evaluation.campaign import Campaign
    from reprl.evaluation.checkpoints import Measured
    from reprl.evaluation.players import Agent

USUAL_SPEED = 1000  # agent steps/s of evaluation on two cores: what the first estimate assumes
RANDOM_FRAMES = 700  # of a game of random play
FILM = Number(0, 2000, whole=True)
HELP = "play full games on variants with trained, random and scripted agents"

KEYS = {
    "variants": Key(
        ["suite:published"],
        "names, name@severity, compositions a+b, suite:NAME or suite:NAME/test",
        "list",
    ),
    "episodes": Key(100, "games on each variant", "int", allowed=EPISODES),
    "seed": Key(0, "games and actions are drawn from it", "int", allowed=GAME_SEED),
    "games": Key(
        "own",
        "own: each training seed plays games of its own; shared: all runs play the same ones",
        choices=lambda: ("own", "shared"),
    ),
    "severities": Key(None, "play variants that have a severity at each of these", "list"),
    "deterministic": Key(False, "the likeliest action instead of a sampled one", "bool"),
    "sticky": Key(
        0.0, "probability that the console repeats an action", "float", allowed=ENV["sticky"]
    ),
    "checkpoint": Key("newest", "newest, best or a step"),
    "agents": Key(
        ["random"],
        "players to measure too: random, scripted, scripted@0.8:ball (skill, blind to), none",
        "list",
    ),
    "twin": Key(False, "instead compare what agents make of one game in every picture", "bool"),
    "steps": Key(400, "steps of the games a twin evaluation looks at", "int", allowed=STEPS),
    "film": Key(
        300, "steps of a twin evaluation kept as a film for the report", "int", allowed=FILM
    ),
    "n_envs": Key(32, "games at a time", "int", allowed=ENV["n_envs"]),
    "workers": Key(
        machine_cores(),
        "processes that play, one a core; results do not depend on it",
        "int",
        allowed=ENV["workers"],
    ),
    "threads": Key(1, "torch's threads, of a process that plays alone", "int", allowed=THREADS),
    "progress": Key("auto", "auto or off", choices=lambda: ("auto", "off")),
    "wandb": WANDB,
    "game": GAME,
    "out": OUT,
    "trust": TRUST,
}

TWINS = 2  # emulator processes of a twin evaluation, whose pictures all go through one network


def run(arguments: list[str]) -> int:
    """Evaluate every run of the folder, and the players that stand beside them."""
    places, values = parse("evaluate", arguments, KEYS, "many", archives=True)
    from reprl.evaluation.baselines import players
    from reprl.evaluation.checkpoints import keep_game, require_ale, targets

    for place in places:
        if sum(place.resolve() == other.resolve() for other in places) > 1:
            raise UserError(f"{place} is given twice: once is enough.")
    several, todo = len(places) > 1, []
    for place in places:  # all of them are looked at before the first game
        out = values["out"] / place.stem if several and values["out"] else values["out"]
        found, problems = targets(place, values["checkpoint"], out=out, game=values["game"])
        if values["twin"]:
            require_ale(found, "twin=true")
        game = found[0].game
        todo.append((place, found, _variants(values, game), players(values["agents"], game), out))
        for problem in problems:
            print(f"WARNING: {shown(problem)}", file=sys.stderr)

    from reprl.runs.logbook import check_wandb

    check_wandb(values["wandb"])
    import torch

    torch.set_num_threads(values["threads"])
    codes = []
    for place, found, variants, beside, out in todo:
        if several:
            print(f"\n{shown(place)}")
        own = {**values, "out": out}
        for target in found:
            keep_game(target)
        codes.append(
            _twins(found, variants, own)
            if values["twin"]
            else _games(place, found, variants, beside, own)
        )
    return max(codes)


def _variants(values: dict[str, Any], game: str) -> list[Variant]:
    from reprl.evaluation.variants import expand, left_out

    for sentence in left_out(values["variants"], game):
        print(shown(sentence), file=sys.stderr)
    key = Key(None, "", "float", allowed=SEVERITY)
    levels = [convert("severities", text, key) for text in values["severities"] or []]
    return expand(values["variants"], levels, game)


def _games(
    place: Path,
    found: list[Measured],
    variants: list[Variant],
    beside: dict[str, Callable[[], Agent]],
    values: dict[str, Any],
) -> int:
    import pandas as pd

    from reprl.evaluation.baselines import baselines_file
    from reprl.evaluation.campaign import Campaign, Protocol, summary
    from reprl.evaluation.checkpoints import each
    from reprl.evaluation.players import ModelAgent
    from reprl.evaluation.variants import label
    from reprl.runs.logbook import harmless

    greedy = values["deterministic"]
    keys = ("episodes", "seed", "sticky", "games")
    protocol = Protocol(tuple(variants), **{key: values[key] for key in keys})
    rows: list[pd.DataFrame] = []
    options = {key: values[key] for key in ("n_envs", "workers", "progress")}
    with Campaign(protocol, **options) as campaign:
        if values["progress"] != "off":
            _say_time(campaign, found, greedy)

        for method, make in beside.items():
            path = baselines_file(place, found[0], values["out"])
            rows.append(campaign.measure(path, make, found[0].settings, method=method))

        def play(target: Measured) -> pd.DataFrame:
            def load() -> Agent:
                model = target.load()
                labels = target.labels(model.num_timesteps)
                return ModelAgent(model, deterministic=greedy, labels=labels)

            games = campaign.measure(
                target.place / "evaluation" / "episodes.csv",
                load,
                target.settings,
                method=target.method,
                step=target.step,
                train_seed=target.seed,
                deterministic=greedy,
            )
            with harmless():
                _log(target, games, rows, values["wandb"])
            return games.assign(run=target.name)

        failed = each(found, lambda target: rows.append(play(target)))
    names = [label(variant) for variant in variants]
    if rows:
        _show(summary(pd.concat(rows, ignore_index=True), names))
    if greedy:
        for name, counts in campaign.distinct.items():
            _say_distinct(name, counts, values["episodes"])
    if CLEAN not in names:
        print(f"The gap needs the clean game too: add variants={CLEAN}.")
    return 1 if failed else 0


def _log(target: Measured, games: pd.DataFrame, beside: list[pd.DataFrame], wandb: str) -> None:
    """Scores and the gap table, in the loggers of the run they are of."""
    import pandas as pd

    from reprl.evaluation.checkpoints import Target
    from reprl.runs.logbook import gap_table, log_results

    if not isinstance(target, Target) or (target.out is not None and wandb == "off"):
        return
    baselines = [f for f in beside if len(f) and f["method"].isin(["random"]).all()]
    numbers, table = gap_table(pd.concat([games, *baselines], ignore_index=True))
    step = int(games["step"].max()) if len(games) else target.step
    log_results(
        target.folder, step, numbers, {"evaluation/gap": table}, wandb=wandb, kind="evaluation"
    )


def _say_time(campaign: Campaign, found: list[Measured], greedy: bool) -> None:
    """How long it will take, before it begins: from the length of games in each training."""
    from reprl.runs.progress import duration

    games, seconds = 0, 0.0
    for target in found:
        count = campaign.lacking(
            target.place / "evaluation" / "episodes.csv",
            method=target.method,
            step=target.step,
            train_seed=target.seed,
            deterministic=greedy,
        )
        games += count
        seconds += count * _steps_a_game(target) / USUAL_SPEED
    if games:
        print(
            f"{games:,} games of {len(found)} run{'s' * (len(found) != 1)} to play: about "
            f"{duration(seconds)} at {USUAL_SPEED:,} steps/s, if they last as long as in training.",
            file=sys.stderr,
        )


def _steps_a_game(target: Measured) -> float:
    """Agent steps of a game at the end of training; a random game's where nobody knows."""
    from reprl.envs.machine import SKIP
    from reprl.runs.metrics import read_rows

    try:
        rows = read_rows(target.metrics_file)
        lengths = [float(row["rollout/length"]) for row in rows if row.get("rollout/length")]
    except (OSError, ValueError, KeyError):
        lengths = []
    known = [length for length in lengths if math.isfinite(length)]  # nan before a game has ended
    return (known[-1] if known else RANDOM_FRAMES) / SKIP


def _twins(found: list[Measured], variants: list[Variant], values: dict[str, Any]) -> int:
    import pandas as pd

    from reprl.evaluation.checkpoints import each
    from reprl.evaluation.twin import comparable, twin_rows, twin_summary

    compared, refused = comparable(variants)
    for sentence in refused:
        print(f"WARNING: {sentence}: skipped.", file=sys.stderr)
    if not compared:
        raise UserError("twin evaluation needs a variant that changes only the picture.")
    keys = ("steps", "seed", "games", "deterministic", "sticky", "workers")
    options = {key: values[key] for key in keys}
    options["workers"] = min(options["workers"], TWINS)
    rows: list[pd.DataFrame] = []

    def look(target: Measured) -> None:
        rows.append(twin_rows(target, compared, **options))
        if values["film"]:
            _film(target, compared, values)

    failed = each(found, look)
    if rows:
        _show(twin_summary(pd.concat(rows, ignore_index=True)))
    return 1 if failed else 0


def _film(target: Measured, variants: list[Variant], values: dict[str, Any]) -> None:
    """Record the first steps of the games just looked at, for the report's explorer."""
    from reprl.analysis.explorer.record import film_of

    keys = ("seed", "games", "deterministic", "sticky")
    protocol = {key: values[key] for key in keys}
    film_of(target, variants, steps=min(values["film"], values["steps"]), **protocol)


def _show(lines: list[list[str]]) -> None:
    lines = [[shown(word) for word in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        names = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        print("  ".join(names + numbers))


def _say_distinct(name: str, counts: dict[str, int], episodes: int) -> None:
    parts = ", ".join(f"{variant} {count}" for variant, count in counts.items())
    print(
        f"{shown(name)}: distinct games among those just played, of {episodes} a variant: {parts}."
    )
