"""`reprl probe DIR`: what the features hold, clean and under each variant, layer by layer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from reprl.cli.arguments import OUT, TRUST, Key, parse
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.settings import PROBE, THREADS

if TYPE_CHECKING:
    import pandas as pd

    from reprl.evaluation.checkpoints import Measured

HELP = "what the features hold: linear probes of every layer, clean and under variants"
PLAYERS = ("agent", "scripted", "random")

KEYS = {
    "variants": Key([CLEAN], "names, name@severity, compositions a+b or suite:NAME", "list"),
    "frames": Key(1800, "moments in all, a third of them held out", "int", allowed=PROBE["frames"]),
    "games": Key(12, "games side by side, a third of them held out", "int", allowed=PROBE["games"]),
    "every": Key(4, "agent steps from one moment to the next", "int", allowed=PROBE["every"]),
    "seed": Key(0, "games and actions are drawn from it", "int", allowed=PROBE["seed"]),
    "player": Key("agent", f"who plays: {', '.join(PLAYERS)}", choices=lambda: PLAYERS),
    "checkpoint": Key("newest", "newest, best or a step"),
    "threads": Key(1, "torch's threads", "int", allowed=THREADS),
    "out": OUT,
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    """Probe every run below the folder."""
    (place,), values = parse("probe", arguments, KEYS, "one", archives=True)
    from reprl.envs.games import game as game_of
    from reprl.envs.games import no_script, no_truth
    from reprl.evaluation.checkpoints import each, targets
    from reprl.evaluation.variants import expand

    found, problems = targets(place, values["checkpoint"], out=values["out"])
    game = found[0].game
    if not game_of(game).has_truth:
        raise UserError(no_truth("a probe", game))
    if values["player"] == "scripted" and game_of(game).scripted is None:
        raise UserError(no_script("player=scripted", game))
    variants = expand(values["variants"], (), game)
    for problem in problems:
        print(f"WARNING: {shown(problem)}", file=sys.stderr)
    import torch

    torch.set_num_threads(values["threads"])

    def measure(target: Measured) -> None:
        _probe(target, variants, values)

    return 1 if each(found, measure) else 0


def _probe(target: Measured, variants: list[Any], values: dict[str, Any]) -> None:
    from reprl.analysis.probe.study import probe, write

    model = target.load()
    step = int(model.num_timesteps)  # not always the newest: a damaged one gives way
    print(f"probing: {shown(target.name)} at step {step} ...", file=sys.stderr, flush=True)
    names = ("frames", "games", "every", "seed", "player")
    table = probe(
        model,
        variants,
        labels=target.labels(step),
        **{name: values[name] for name in names},
        **target.settings,
    )
    path = write(target, table)
    for problem in table.attrs["problems"]:
        print(f"WARNING: {shown(problem)}: left out.", file=sys.stderr)
    _show(table, target.name, step)
    print(f"  {table.attrs['seconds']:.0f} s -> {shown(path)}")


def _show(table: pd.DataFrame, name: str, step: int) -> None:
    from reprl.analysis.probe.study import summary

    first = table.iloc[0]
    print(
        f"\n{shown(name)} at step {step}, frames of player={first['player']}: "
        f"fitted on {first['n_fit']} clean ones, read on {first['n_read']} of other games"
    )
    print("R2 of numbers (1 all, 0 nothing), balanced accuracy of yes/no labels (0.5 chance)")
    for variant in dict.fromkeys(table["variant"]):
        controls = ("untrained", "pixels", "shuffled", "truth") if variant == CLEAN else ("pixels",)
        lines = summary(table, variant, ("agent", *controls))
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        print(f"\n  {shown(variant)}")
        for line in lines:
            words = [w.ljust(n) if i < 2 else w.rjust(n) for i, (w, n) in _columns(line, widths)]
            print("  " + "  ".join(words).rstrip())
    left_out = table.attrs["left_out"]
    if left_out:
        named = ", ".join(f"{label} ({why})" for label, why in left_out.items())
        print(f"\n  left out: {shown(named)}")


def _columns(line: list[str], widths: list[int]) -> list[tuple[int, tuple[str, int]]]:
    return list(enumerate(zip(line, widths, strict=True)))
