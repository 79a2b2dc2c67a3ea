"""The players every run is measured against: random and scripted ones, by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reprl.envs.games import Scripted, no_script
from reprl.envs.games import game as game_of
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.players import Agent, RandomAgent, ScriptedPlayer
from reprl.settings import SKILL
from reprl.validation import choice

NAMES = ("random", "scripted", "none")


def players(names: list[str], game: str) -> dict[str, Callable[[], Agent]]:
    """Method name -> how to make the player, for `random`, `scripted@SKILL:blind+blind`, `none`."""
    found: dict[str, Callable[[], Agent]] = {}
    for text in names:
        head, _, blind = text.partition(":")
        name, _, skill = head.partition("@")
        if name not in NAMES or (name != "scripted" and text != name):
            choice("agents", text, NAMES)
        if name == "random":
            found["random"] = RandomAgent
        elif name == "scripted":
            script = game_of(game).scripted
            if script is None:
                raise UserError(no_script(f"agents={text}", game))
            agent = script(_skill(text, skill), [b for b in blind.split("+") if b])
            found[str(ScriptedPlayer(agent).labels["method"])] = _maker(agent)
    return found


def baselines_file(place: Path, target: Measured, out: Path | None = None) -> Path:
    """Beside the runs of a sweep, or inside a run: where the report looks for them."""
    if out is not None or place.is_file():
        return (out or target.place) / "baselines" / "evaluation" / "episodes.csv"
    is_sweep = not (place / "run.json").is_file() and not (place / "manifest.json").is_file()
    home = place if is_sweep else target.place
    return home / "baselines" / "evaluation" / "episodes.csv"


def _maker(agent: Scripted) -> Callable[[], Agent]:
    return lambda: ScriptedPlayer(agent)


def _skill(text: str, skill: str) -> float:
    value: Any = skill or 1.0
    with suppress(ValueError):
        value = float(value)
    return float(SKILL.checked(f"agents={text}: skill", value))
