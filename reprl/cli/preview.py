"""`reprl preview`: a contact sheet of the variants, or a video of the scripted player on one."""

from __future__ import annotations

from pathlib import Path

from reprl.cli.arguments import TRUST, Key, parse
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.errors import UserError
from reprl.settings import SEED, SEVERITY, SKILL
from reprl.validation import Number

HELP = "a contact sheet of the variants, or a video of the scripted player on one"

KEYS = {
    "game": Key(
        DEFAULT_GAME, "breakout, freeway, pong, your own with a scripted player, or procgen/coinrun"
    ),
    "variant": Key(
        None, "variants to show, such as green_lines@0.7,drift_left; all if not given", "list"
    ),
    "output": Key(Path("variants.png"), "the sheet to write", "path"),
    "video": Key(None, "write this mp4 of one variant instead of a sheet", "path"),
    "severity": Key(
        None, "show every variant that has a severity at this one", "float", allowed=SEVERITY
    ),
    "seed": Key(0, "the game to show", "int", allowed=SEED),
    "seconds": Key(20.0, "length of the video", "float", allowed=Number(0.1, 3600)),
    "skill": Key(1.0, "skill of the player in the video", "float", allowed=SKILL),
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    _, values = parse("preview", arguments, KEYS, "none")
    from reprl.envs.variation import find

    names = values["variant"] or []
    for name in names:
        find(name, None, values["game"])
    from reprl.envs import preview

    if values["video"] is None:
        path = preview.contact_sheet(
            values["output"],
            names,
            severity=values["severity"],
            seed=values["seed"],
            game=values["game"],
        )
    else:
        if len(names) > 1:
            raise UserError(f"video={values['video']} shows one variant, got {len(names)}.")
        path = preview.video(
            values["video"],
            names[0] if names else CLEAN,
            seconds=values["seconds"],
            severity=values["severity"],
            seed=values["seed"],
            skill=values["skill"],
            game=values["game"],
        )
    print(f"wrote {path}")
    return 0
