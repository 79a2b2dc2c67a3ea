"""`reprl play [DIR]`: play the game yourself, in any variant, or watch an agent play it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprl.cli.arguments import TRUST, Key, parse
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.machine import SKIP
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.runs.places import check_writable
from reprl.settings import EPISODES, SEED, SEVERITY

if TYPE_CHECKING:
    from reprl.evaluation.players import Task

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
    "game": Key(None, "the game, breakout if not given; of an agent it is the agent's"),
    "record": Key(False, "keep your games: the same ones that agents are evaluated on", "bool"),
    "episodes": Key(3, "with record=true: games to play", "int", allowed=EPISODES),
    "name": Key("me", "with record=true: who plays"),
    "out": Key(Path("people"), "with record=true: folder of evaluation/episodes.csv", "path"),
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    places, values = parse("play", arguments, KEYS, "perhaps", archives=True)
    from reprl.envs.games import canonical
    from reprl.envs.variation import find
    from reprl.evaluation.episodes import FRAME_LIMIT
    from reprl.evaluation.players import Task

    if places and values["record"]:
        raise UserError("record=true keeps a person's games: name no agent, or reprl evaluate it.")
    if values["record"]:
        check_writable(values["out"], "out")
        _require_name(values["name"])
    seen, agent = watched(places[0], values["seed"], values["game"]) if places else ({}, None)
    played = seen.get("game") or canonical(values["game"] or DEFAULT_GAME)
    variant = find(values["variant"], values["severity"], played)
    tasks = [Task(variant, e, values["seed"]) for e in range(values["episodes"])]
    if not values["record"]:
        tasks = []
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
        settings=seen or {"game": played, "max_frames": FRAME_LIMIT},
        agent=agent,
        games=[task.game_seed for task in tasks],
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
        if tasks:
            keep(session.finished, tasks, values["name"], values["out"])
    print(f"best game: {session.best:g} points")
    return 0


def keep(games: list[tuple[float, int, bool]], tasks: list[Task], name: str, out: Path) -> None:
    """Write the finished games of a person as rows of the table of games."""
    from reprl import tables
    from reprl.evaluation.episodes import FinishedGame
    from reprl.evaluation.evaluate import table
    from reprl.evaluation.players import Person
    from reprl.schema import EPISODES as TABLE

    rows = [
        FinishedGame(task, score, frames, frames // SKIP, "frame_limit" if cut else "game_over", "")
        for task, (score, frames, cut) in zip(tasks, games, strict=False)
    ]
    if not rows:
        print("no game was finished, so nothing is recorded.")
        return
    path = out / "evaluation" / "episodes.csv"
    tables.merge(path, table(rows, Person(name), 0.0), TABLE)
    print(f"{len(rows)} games of {shown(name)} -> {shown(path)}")
    print(f"next: reprl report RUNS {shown(out)}")


def _require_name(name: str) -> None:
    if not re.fullmatch(r"\w[\w .-]{0,39}", name):
        raise UserError(f"name={name[:60]} must be 1 to 40 letters, digits, spaces, dots or -.")


def watched(
    place: Path, seed: int, game: str | None = None
) -> tuple[dict[str, Any], Callable[[np.ndarray, bool], int]]:
    """What the newest agent below a folder sees, and how it chooses its actions."""
    from reprl.evaluation.checkpoints import require_ale, targets
    from reprl.policy import player_of, restarted, sample_actions
    from reprl.rng import numpy_stream

    found, _ = targets(place, into=None, game=game)
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
