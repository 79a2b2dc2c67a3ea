"""`reprl attention DIR`: where an agent looks, as pictures, video and scores in its run folder."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprl.cli.arguments import GAME, OUT, TRUST, WANDB, Key, parse
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError, unknown
from reprl.escaping import shown
from reprl.schema import ATTRIBUTIONS
from reprl.settings import GAME_SEED, THREADS
from reprl.validation import Number

if TYPE_CHECKING:
    import pandas as pd

    from reprl.analysis.attention.record import Behaviour
    from reprl.analysis.attention.study import Study
    from reprl.envs import Variant
    from reprl.evaluation.checkpoints import Measured

HELP = "where an agent looks: maps, video and scores against the game's ground truth"
PLAYERS = ("agent", "random", "scripted")

KEYS = {
    "variant": Key([CLEAN], "names, name@severity, compositions a+b or suite:NAME", "list"),
    "steps": Key(1000, "agent steps in all that are looked at", "int", allowed=Number(16, 20_000)),
    "seed": Key(0, "games and actions are drawn from it", "int", allowed=GAME_SEED),
    "shared": Key(False, "all runs play the same games; else each training seed its own", "bool"),
    "method": Key(
        None, f"{', '.join(ATTRIBUTIONS)}; by default the agent's mask, gradient if it has none"
    ),
    "player": Key("agent", f"who plays: {', '.join(PLAYERS)}", choices=lambda: PLAYERS),
    "checkpoint": Key("newest", "newest, best or a step"),
    "over_training": Key(False, "score every kept checkpoint, draw the last", "bool"),
    "faithfulness": Key(False, "also test whether the policy depends on what is marked", "bool"),
    "games": Key(
        8, "games played for each masked condition of faithfulness", "int", allowed=Number(2)
    ),
    "threads": Key(1, "torch's threads", "int", allowed=THREADS),
    "wandb": WANDB,
    "game": GAME,
    "out": OUT,
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    """Study every run below the folder on every variant."""
    (place,), values = parse("attention", arguments, KEYS, "one", archives=True)
    if values["method"] is not None and values["method"] not in ATTRIBUTIONS:
        raise unknown("value of method", values["method"], ATTRIBUTIONS)
    if values["over_training"] and values["checkpoint"] != "newest":
        raise UserError("over_training=true looks at every checkpoint: leave checkpoint= out.")
    from reprl.envs.games import game as game_of
    from reprl.envs.games import no_script
    from reprl.evaluation.checkpoints import each, keep_game, require_ale, targets
    from reprl.evaluation.variants import expand

    found, problems = targets(
        place, values["checkpoint"], out=values["out"], into="attention", game=values["game"]
    )
    require_ale(found, "reprl attention", procgen=True, pictures=True)
    game = found[0].game
    variants = expand(values["variant"], (), game)
    if values["player"] == "scripted" and game_of(game).scripted is None:
        raise UserError(no_script("player=scripted", game))
    for problem in problems:
        print(f"WARNING: {shown(problem)}", file=sys.stderr)
    from reprl.runs.logbook import check_wandb

    check_wandb(values["wandb"])
    import torch

    torch.set_num_threads(values["threads"])

    def look(target: Measured) -> None:
        keep_game(target)
        for variant in variants:
            _target(target, variant, values)

    return 1 if each(found, look) else 0


def _target(target: Measured, variant: Variant, values: dict[str, Any]) -> None:
    from reprl.evaluation.checkpoints import Target

    steps = target.steps if values["over_training"] else [target.step]
    for step in steps:
        at = target
        if isinstance(target, Target) and step != target.step:
            at = dataclasses.replace(target, step=step, exact=True)
        _study(at, variant, values, last=step == steps[-1])


def _study(target: Measured, variant: Variant, values: dict[str, Any], last: bool) -> None:
    from reprl.analysis.attention.network import network_of
    from reprl.analysis.attention.study import measure_faithfulness, study, write
    from reprl.analysis.attention.views import limits, make_view
    from reprl.runs.logbook import harmless

    model = target.load()
    step = int(model.num_timesteps)  # not always the newest: a damaged one gives way
    network = network_of(model, target.game)
    if network.continuous:
        _require_discrete(values)
    view = make_view(network, values["method"])
    where = f"{target.name} at step {step} on {variant.name}"
    for sentence in limits(view, values["method"]):
        print(sentence, file=sys.stderr)
    print(f"looking: {shown(where)}, {view.words} ...", file=sys.stderr, flush=True)
    seed, settings = _seed(target, values), target.settings
    found = study(
        view,
        variant,
        steps=values["steps"],
        seed=seed,
        player=_player(values["player"], seed, target.game),
        settings=settings,
    )
    if values["faithfulness"] and last:
        measure_faithfulness(found, variant, games=values["games"], seed=seed, settings=settings)
    identity = target.labels(step)
    write(found, target.place, identity, pictures=last)
    if last:
        with harmless():
            _log(target, found, step, values["wandb"])
    _show(found, target.place, identity, last)


def _require_discrete(values: dict[str, Any]) -> None:
    """Refuse what asks an agent with continuous actions for those it has not."""
    for key, wanted in {"player": "scripted", "faithfulness": True}.items():
        if values[key] == wanted:
            raise UserError(
                f"{key}={str(values[key]).lower()} needs an agent with discrete actions, and this "
                f"one acts with numbers: leave {key}= out."
            )


def _log(target: Measured, found: Study, step: int, wandb: str) -> None:
    """Scores and the sheet of pictures, in the loggers of the run they are of."""
    from reprl.analysis.attention.pictures import contact_sheet
    from reprl.evaluation.checkpoints import Target
    from reprl.runs.logbook import log_results
    from reprl.runs.media import LoggedPicture, LoggedTable, Medium

    if not isinstance(target, Target) or (target.out is not None and wandb == "off"):
        return
    name = f"{found.recording.view.words} on {found.variant}"
    sheet = contact_sheet(found.recording, f"{name} at step {step:,}")
    media: dict[str, Medium] = {f"attention/{found.variant}": LoggedPicture(sheet)}
    if found.scores is not None:
        columns = [str(c) for c in found.scores.columns]
        rows = found.scores.astype(object).to_numpy().tolist()
        media[f"attention/scores/{found.variant}"] = LoggedTable(columns, rows)
    numbers = {f"attention/{key}/{found.variant}": value for key, value in found.numbers.items()}
    log_results(target.folder, step, numbers, media, wandb=wandb, kind="attention")


def _seed(target: Measured, values: dict[str, Any]) -> int:
    """What a run's games are drawn from: runs that share them share their luck too."""
    from reprl.rng import stream_seed

    if values["shared"]:
        return int(values["seed"])
    return stream_seed(values["seed"], "attention", "games", target.seed) % 2**31


def _player(name: str, seed: int, game: str) -> Behaviour | None:
    from reprl.analysis.attention.record import scripted, uniform

    if name == "scripted":
        return scripted(seed, game)
    return uniform(seed) if name == "random" else None


def _show(found: Study, folder: Path, identity: dict[str, Any], last: bool) -> None:
    recording = found.recording
    looks = f"{len(recording.blocks)} looks in {len(set(recording.blocks.tolist()))} games"
    print(
        f"\n{shown(identity['run'])} at step {identity['step']}, {recording.view.words} on", end=" "
    )
    print(f"{found.variant}: {looks}")
    if found.labels is not None:
        state = ", ".join(found.labels) or "healthy"
        words = "  ".join(f"{k} {v:.2f}" for k, v in found.numbers.items())
        print(f"  mask: {state}  {words}")
    if found.scores is None:
        print("  not scored: the objects of this game are not known.")
    else:
        print(_table(found.scores, found.recording.game.tracked))
    if found.faithfulness is not None:
        print(_faithful(found.faithfulness))
    if last:
        from reprl.analysis.attention.study import study_name

        print(
            f"  -> {shown(folder / 'attention' / study_name(found.variant))}.png, .mp4, scores.csv"
        )


def _table(scores: pd.DataFrame, tracked: str | None) -> str:
    lines = [
        f"  {'object':<11} {'energy':>23} {'chance':>7} {'best':>7}"
        f" {'pointing':>9} {'chance':>7} {'auc':>19}"
    ]
    for name, part in scores[scores["metric"] != "lag"].groupby("object", sort=False):
        at = part.set_index("metric")
        e, p, a = (at.loc[m] if m in at.index else None for m in ("energy", "pointing", "auc"))
        line = f"  {name:<11}"
        if e is not None:
            line += f" {e['value']:>8.4f} [{e['low']:.4f},{e['high']:.4f}]"[:34].rjust(24)
            line += f" {e['chance']:>7.4f} {e['ceiling']:>7.3f}"
        if p is not None:
            line += f" {p['value']:>9.3f} {p['chance']:>7.3f}"
        if a is not None:
            line += f" {a['value']:>5.2f} [{a['low']:.2f},{a['high']:.2f}]".rjust(20)
        lines.append(line)
    for _, row in scores[scores["metric"] == "lag"].iterrows():
        lines.append(
            f"  behind the {row['object']} by {row['value']:g} steps "
            f"[{row['low']:g},{row['high']:g}]"
        )
    if tracked is not None and "lag" not in set(scores["metric"]):
        lines.append(f"  no lag: the maps do not follow the {tracked}")
    return "\n".join(lines)


def _faithful(table: pd.DataFrame) -> str:
    lines = []
    for test in ("deletion", "insertion"):
        part = table[(table["test"] == test) & table["advantage"].notna()]
        words = [
            f"{row['advantage']:+.2g} [{row['advantage_low']:.2g},{row['advantage_high']:.2g}] "
            f"against {row['condition']} pixels"
            for _, row in part.iterrows()
        ]
        lines.append(f"  {test}, KL area gained: {', '.join(words)}")
    part = table[table["test"] == "return"]
    share = part["share"].iloc[0]
    words = [f"{row['condition']} {row['value']:.1f}" for _, row in part.iterrows()]
    lines.append(f"  score with {share:.0%} of the pixels: {', '.join(words)}")
    end = table[table["test"] == "weights randomised"]["value"].iloc[-1]
    lines.append(f"  similarity of maps after all weights are randomised: {end:.2f}")
    return "\n".join(lines)
