"""A user's own variant on trial: built and shown a frame of a real game, before any worker starts.

user's class -> `find` -> **trial** -> variant. What is wrong with it is then one sentence.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import ale_py
import numpy as np

from reprl.envs.machine import Machine, emulator
from reprl.envs.objects import breakout_objects
from reprl.errors import UserError
from reprl.user_code import described

if TYPE_CHECKING:
    from reprl.envs.variation.base import Effect, Variant

NO_OBJECTS = " draw() is given objects only where the class says needs_objects = True."
NOT_HERE = " Objects are known in Breakout only: say games = ('breakout',) in the class."


def attempt(variant: Variant, game: str) -> None:
    """Build a user's variant and let each of its effects change one frame of the game."""
    if not variant.effects:
        return
    _require_plain(variant)
    effects = variant.build()
    ale = emulator(game)
    ale.reset_game()
    for effect in effects:
        try:
            result = _show(effect, ale, game)
        except UserError:
            raise
        except Exception as error:
            hint = NOT_HERE * (game != "breakout") if effect.needs_objects else NO_OBJECTS
            hint *= "NoneType" in str(error)
            raise UserError(f"variant '{variant.name}' raised {described(error)}{hint}") from error
        if result is not None:
            raise UserError(
                f"variant '{variant.name}': draw() must change the frame in place and return "
                f"nothing, got {type(result).__name__}."
            )


def _require_plain(variant: Variant) -> None:
    """Parameters are part of snapshots."""
    for part in variant.effects:
        for key, value in part.parameters.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                raise UserError(
                    f"variant '{variant.name}': {key} must be plain data (numbers, text, lists "
                    f"of them), got {type(value).__name__}."
                ) from None


def _show(effect: Effect, ale: ale_py.ALEInterface, game: str) -> object:
    """One frame of a game under an effect; returns what its draw() returned."""
    machine = Machine(ale)
    effect.reset(np.random.default_rng(0))
    effect.before_frame(machine)
    ale.act(0)
    known = effect.needs_objects and game == "breakout"
    frame = ale.getScreenRGB()
    result: object = effect.draw(frame, breakout_objects(machine.ram) if known else None)  # type: ignore[func-returns-value]
    effect.mask(np.zeros(frame.shape[:2], bool))
    return result
