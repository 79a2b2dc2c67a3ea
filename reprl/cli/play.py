"""`reprl play`: play the game yourself, in any variant, in a window or in the terminal."""

from __future__ import annotations

import importlib.util

from reprl.cli.arguments import TRUST, Key, parse
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError
from reprl.settings import SEED, SEVERITY

HELP = "play the game yourself, in any variant"

KEYS = {
    "variant": Key(CLEAN, "the variant to play, such as green_lines@0.7+drift_left"),
    "severity": Key(None, "how strong the variant is", "float", allowed=SEVERITY),
    "view": Key(
        "screen", "screen, or agent for its 84x84 view", choices=lambda: ("screen", "agent")
    ),
    "where": Key(
        "auto", "auto, window or terminal", choices=lambda: ("auto", "window", "terminal")
    ),
    "seed": Key(0, "the first game", "int", allowed=SEED),
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    _, values = parse("play", arguments, KEYS, "none")
    from reprl.envs.variation import find

    variant = find(values["variant"], values["severity"])
    from reprl.envs import play

    window = values["where"] == "window" or (values["where"] == "auto" and play.has_screen())
    if window and importlib.util.find_spec("pygame") is None:
        if values["where"] == "window":
            raise UserError("where=window needs pygame: pip install 'reprl[play]'.")
        print("for a window: pip install 'reprl[play]'; playing in the terminal.")
        window = False
    session = play.HumanGame(variant, severity=None, seed=values["seed"], view=values["view"])
    try:
        if window:
            play.play_in_window(session, f"reprl play {variant.name}")
        else:
            play.play_in_terminal(session, variant.name)
    except KeyboardInterrupt:
        return 130
    finally:
        session.close()
    print(f"best game: {session.best:g} points")
    return 0
