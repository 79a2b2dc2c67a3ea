"""Which game is meant: `breakout`, any other ALE game, or a user's own `module:object`.

`gymnasium/CartPole-v1` is an environment of gymnasium, `procgen/coinrun` a game of Procgen: both
are games without truth.
A module of this package that declares `GAME` is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from gymnasium import spaces

from reprl import trust
from reprl.components import described, imported
from reprl.envs import procgen_names
from reprl.envs.defaults import GYMNASIUM, PROCGEN
from reprl.envs.games.base import Game, Memory, Roles, Scripted, mirrored
from reprl.envs.gymnasium_ids import action_names, require_known, spaces_of
from reprl.envs.joystick import joystick_space
from reprl.envs.machine import console, emulator, games
from reprl.envs.objects import BACKGROUND, DISTRACTOR, Objects
from reprl.errors import UserError, unknown

__all__ = [
    "Game",
    "Memory",
    "Roles",
    "Scripted",
    "action_space_of",
    "actions_of",
    "canonical",
    "game",
    "known_games",
    "mirrored",
    "no_script",
    "no_truth",
]


@cache
def known_games() -> Mapping[str, Game]:
    """The games whose truth this package knows, by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        declared = getattr(importlib.import_module(f"{__name__}.{module.name}"), "GAME", None)
        if isinstance(declared, Game):
            found[declared.cartridge] = declared
    return found


_WRITTEN = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?(?:-v\d+)?")


def canonical(name: str) -> str:
    """ALE's name of a game as people write it: Pong, ALE/Pong-v5, MsPacman; others as they are."""
    if not isinstance(name, str) or ":" in name or name in games():
        return name
    if name.startswith(PROCGEN):
        return procgen_names.written(name)
    written = _WRITTEN.fullmatch(name.strip())
    if written is None:
        return name
    plain = written[1].replace("_", "").lower()
    found = [known for known in games() if known.replace("_", "") == plain]
    return found[0] if found else name


def game(name: str) -> Game:
    """The game of a name; one of which nothing is known has no truth; a wrong name is refused."""
    name = canonical(name)
    if name.startswith(GYMNASIUM):
        require_known(name)
        return Game(cartridge=name)
    if name.startswith(PROCGEN):
        procgen_names.require_known(name)
        least, most = procgen_names.SCORES[name.removeprefix(PROCGEN)][0]
        # levels lead somewhere: their mirror images are others
        return Game(cartridge=name, symmetric=False, score_scale=round((most - least) / 10, 3))
    if name in known_games():
        return known_games()[name]
    if name.partition(":")[0].lower() == "ocatari":
        raise UserError(
            f"game '{name}': OCAtari (2.2.1) asks for numpy below 2 and cannot stand beside reprl: "
            "write what it knows of the game as a game of your own, module:object (docs/games.md)."
        )
    if ":" in name:
        trust.require(name.partition(":")[0], name)  # also where it was imported before
        return _own(name)
    if name not in games():
        if (other := procgen_names.written(f"{PROCGEN}{name}")) in procgen_names.procgen_games():
            plain = other.removeprefix(PROCGEN)
            raise UserError(
                f"game '{name}' is Procgen's: choose env=procgen env.game={plain}, in Python "
                f"game='{other}'."
            )
        raise unknown("game", name, games())
    return Game(cartridge=name)


def action_space_of(name: str, continuous: bool = False) -> spaces.Space[Any]:
    """What an agent of a game chooses from: one of its actions, or numbers."""
    cartridge = game(name).cartridge
    if cartridge.startswith(GYMNASIUM):
        return spaces_of(cartridge)[1]
    return joystick_space() if continuous else spaces.Discrete(len(actions_of(cartridge)))


def actions_of(cartridge: str) -> list[str]:
    """The meanings of a game's actions, in order; none where they are continuous."""
    if cartridge.startswith(GYMNASIUM):
        return action_names(cartridge)
    if cartridge.startswith(PROCGEN):
        return list(procgen_names.ACTIONS)
    return list(console(cartridge).actions)


def no_truth(what: str, name: str) -> str:
    """The sentence for something that needs the objects of a game of which they are not known."""
    return f"{what} needs a game's objects: they are known in {_listed()}, not in '{name}'."


def no_script(what: str, name: str) -> str:
    """The sentence for a scripted agent that a game does not have."""
    return f"{what} needs a scripted agent: there is one for {_listed()}, not for '{name}'."


def _listed() -> str:
    *first, last = sorted(known_games())
    return f"{', '.join(first)} and {last}, or your own module:object"


@cache
def _own(path: str) -> Game:
    """A user's own game, tried on the first frame of its cartridge."""
    try:
        found = imported(path)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"game '{path}' cannot be imported: {described(error)}") from error
    if not isinstance(found, Game):
        raise UserError(f"game '{path}' is a {type(found).__name__}, not a reprl.envs.games.Game.")
    if found.cartridge not in games():
        raise unknown(f"cartridge of game '{path}'", found.cartridge, games())
    if found.objects is None:
        return found
    ale = emulator(found.cartridge)
    ale.reset_game()
    try:
        objects = found.objects(ale.getRAM())
    except Exception as error:
        raise UserError(f"objects() of game '{path}' raised {described(error)}") from error
    if not isinstance(objects, Objects):
        raise UserError(f"objects() of game '{path}' gave a {type(objects).__name__}, not Objects.")
    names = tuple(n for n in objects.masks() if n not in (DISTRACTOR, BACKGROUND))
    if names != found.classes:
        raise UserError(
            f"game '{path}': objects() gives {', '.join(names) or 'nothing'}, "
            f"classes are {', '.join(found.classes) or 'none'}: name them alike, boxes first."
        )
    if found.tracked is not None and found.tracked not in objects.boxes:
        raise unknown(f"tracked object of game '{path}'", found.tracked, objects.boxes)
    return found
