"""`reprl video DIR...`: a film of one agent, or of several side by side, on a variant."""

from __future__ import annotations

import sys
from pathlib import Path

from reprl.cli.arguments import GAME, TRUST, Key, parse
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.schema import ATTRIBUTIONS
from reprl.settings import GAME_SEED, THREADS
from reprl.validation import Number

HELP = "a film of agents at play on a variant, mp4 or GIF, with where they look if asked"
MOST = 4  # agents side by side
ATTENTION = ("off", "auto", *ATTRIBUTIONS)

KEYS = {
    "variant": Key(CLEAN, "a name, name@severity or a composition a+b"),
    "output": Key(
        None, "the file to write, .mp4 or .gif; <run>_<variant>.mp4 if not given", "path"
    ),
    "seconds": Key(20.0, "length of the film", "float", allowed=Number(0.1, 3600)),
    "attention": Key(
        "off",
        f"heat over the screen: {', '.join(ATTENTION)}; auto is the mask, gradient without one",
        choices=lambda: ATTENTION,
    ),
    "seed": Key(0, "the game and the actions are drawn from it", "int", allowed=GAME_SEED),
    "deterministic": Key(
        False, "the likeliest action, or the mean of continuous ones, not a sampled one", "bool"
    ),
    "checkpoint": Key("newest", "newest, best or a step"),
    "threads": Key(1, "torch's threads", "int", allowed=THREADS),
    "game": GAME,
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    """Film every run that is named, all on the same variant and seed."""
    folders, values = parse("video", arguments, KEYS, "many", archives=True)
    from reprl.evaluation.checkpoints import found_in, require_ale
    from reprl.evaluation.variants import expand

    found = []
    for folder in folders:
        here, problems = found_in(folder, values["checkpoint"], game=values["game"])
        found += here
        for problem in problems:
            print(f"WARNING: {shown(problem)}", file=sys.stderr)
    if len(found) > MOST:
        raise UserError(f"reprl video shows at most {MOST} agents side by side, got {len(found)}.")
    games = sorted({target.game for target in found})
    if len(games) > 1:
        raise UserError(f"the runs play different games ({', '.join(games)}): film them apart.")
    require_ale(found, "reprl video", procgen=True, pictures=True)
    variants = expand([values["variant"]], (), games[0])
    if len(variants) != 1:
        raise UserError(f"variant={values['variant']} must be one variant, got {len(variants)}.")

    from reprl.analysis.video import FilmedAgent, check_output, write_film
    from reprl.evaluation.variants import label
    from reprl.naming import file_name

    name = "_".join([*dict.fromkeys(t.name for t in found), label(variants[0])])
    output = values["output"] or Path(f"{file_name(name, other='_')}.mp4")
    check_output(output)
    import torch

    torch.set_num_threads(values["threads"])
    agents = [FilmedAgent(t.name, t.load(), t.settings) for t in found]
    scores = write_film(
        agents,
        variants[0],
        output,
        seconds=values["seconds"],
        seed=values["seed"],
        attention=values["attention"],
        deterministic=values["deterministic"],
    )
    for agent, points in scores.items():
        print(f"{shown(agent)}: {points:g} points")
    print(f"wrote {shown(output)}")
    return 0
