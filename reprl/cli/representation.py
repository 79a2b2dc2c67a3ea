"""What `probe`, `layers`, `intervene`, `breaking` and `embed` share: runs, keys, tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprl.cli.arguments import GAME, OUT, TRUST, Key
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.settings import THREADS, TWINS

if TYPE_CHECKING:
    from reprl.evaluation.checkpoints import Measured

PLAYERS = ("agent", "scripted", "random")
VARIANTS = Key([CLEAN], "names, name@severity, compositions a+b or suite:NAME", "list")
EVERY = Key(4, "agent steps from one moment to the next", "int", allowed=TWINS["every"])
SEED = Key(0, "games and actions are drawn from it", "int", allowed=TWINS["seed"])
PLAYER = Key("agent", f"who plays: {', '.join(PLAYERS)}", choices=lambda: PLAYERS)
COMMON = {
    "checkpoint": Key("newest", "newest, best or a step"),
    "threads": Key(1, "torch's threads", "int", allowed=THREADS),
    "game": GAME,
    "out": OUT,
    "trust": TRUST,
}


def found_runs(places: Sequence[Path], values: dict[str, Any], what: str) -> list[Measured]:
    """The checkpoints behind several folders, each once, all of one game whose truth is known."""
    from reprl.envs.games import game as game_of
    from reprl.envs.games import no_script, no_truth
    from reprl.evaluation.checkpoints import targets

    found: list[Measured] = []
    for place in places:
        out = values["out"]
        if out is not None and len(places) > 1:
            out = out / (place.stem if place.is_file() else place.resolve().name)
        some, problems = targets(place, values["checkpoint"], out=out, game=values["game"])
        for problem in problems:
            print(f"WARNING: {shown(problem)}", file=sys.stderr)
        found += [t for t in some if t.place not in {other.place for other in found}]
    games = sorted({target.game for target in found})
    if len(games) > 1:
        raise UserError(
            f"these runs play different games ({', '.join(games)}): name one's at once."
        )
    if not game_of(games[0]).has_truth:
        raise UserError(no_truth(what, games[0]))
    if values.get("player") == "scripted" and game_of(games[0]).scripted is None:
        raise UserError(no_script("player=scripted", games[0]))
    return found


def each_run(
    found: Sequence[Measured], values: dict[str, Any], measure: Callable[[Measured], None]
) -> int:
    """Measure every run with the chosen number of threads; the command's exit code."""
    import torch

    from reprl.evaluation.checkpoints import each

    torch.set_num_threads(values["threads"])
    return 1 if each(found, measure) else 0


def begin(target: Measured, doing: str) -> None:
    """Say which run is looked at, and keep which game it plays."""
    from reprl.evaluation.checkpoints import keep_game

    keep_game(target)
    print(f"{doing}: {shown(target.name)} at step {target.step} ...", file=sys.stderr, flush=True)


def warn(problems: Sequence[str]) -> None:
    """Say which variants were left out."""
    for problem in problems:
        print(f"WARNING: {shown(problem)}: left out.", file=sys.stderr)


def show(lines: Sequence[Sequence[str]], words: int) -> None:
    """Print a table, header first: its first `words` columns are text, the others numbers."""
    rows = [[shown(cell) for cell in line] for line in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        text = [c.ljust(n) if i < words else c.rjust(n) for i, (c, n) in enumerate(cells)]
        print("  " + "  ".join(text).rstrip())
