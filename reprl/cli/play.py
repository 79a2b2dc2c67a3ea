"""`reprl play [DIR]`: play the game yourself, in any variant, or watch an agent play it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reprl.cli.arguments import TRUST, Key, parse
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError
from reprl.settings import SEED, SEVERITY

HELP = "play the game yourself, in any variant, or watch an agent: reprl play agent:imitation"

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
    places, values = parse("play", arguments, KEYS, "perhaps", archives=True)
    from reprl.envs.variation import find

    seen, agent = watched(places[0], values["seed"]) if places else ({}, None)
    variant = find(values["variant"], values["severity"], *([seen["game"]] if seen else []))
    from reprl.envs import play

    window = values["where"] == "window" or (values["where"] == "auto" and play.has_screen())
    if window and importlib.util.find_spec("pygame") is None:
        if values["where"] == "window":
            raise UserError("where=window needs pygame: pip install 'reprl[play]'.")
        print("for a window: pip install 'reprl[play]'; playing in the terminal.")
        window = False
    session = play.HumanGame(
        variant,
        severity=None,
        seed=values["seed"],
        view=values["view"],
        settings=seen,
        agent=agent,
    )
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


def watched(place: Path, seed: int) -> tuple[dict[str, Any], Callable[[np.ndarray, bool], int]]:
    """What the newest agent below a folder sees, and how it chooses its actions."""
    from reprl.evaluation.checkpoints import require_ale, targets
    from reprl.policy import player_of, restarted, sample_actions
    from reprl.rng import numpy_stream

    found, _ = targets(place, into=None)
    require_ale(found, "reprl play")
    if len(found) > 1:
        names = ", ".join(target.name for target in found[:4])
        raise UserError(f"{place} holds {len(found)} agents ({names}, ...): name one of them.")
    player = player_of(found[0].load())
    uniforms = numpy_stream(seed, "watched")
    state = player.initial_state(1)

    def choose(observations: np.ndarray, began: bool) -> int:
        nonlocal state
        state = restarted(player, state, np.array([began]))
        outputs, state = player.outputs(observations, state)
        return int(sample_actions(outputs.probs, uniforms.random(1))[0])

    return found[0].settings, choose
